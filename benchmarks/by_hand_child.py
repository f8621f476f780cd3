"""One configuration of ``by_hand.py``, or the winner, in a process of its own; and the handle of such a process."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

Array = np.ndarray[Any, np.dtype[Any]]
Feeds = dict[str, Array]
Call = Callable[[Feeds], Array]
Order = dict[str, Any]

WINNER = "kedro-hone"
KEEP_MEMORY = {"MALLOC_MMAP_THRESHOLD_": str(32 << 20), "MALLOC_TRIM_THRESHOLD_": str(1 << 40)}  # as in all workers
BURST_SECONDS, GATE_BATCH = 0.06, 64


class Turns:
    """The process of one configuration, which is stopped while it has no turn."""

    def __init__(self, order: Order) -> None:
        command = [sys.executable, "-W", "ignore", __file__, json.dumps(order)]
        self._process = subprocess.Popen(
            command,
            env={**os.environ, **KEEP_MEMORY},
            text=True,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        )
        self.opened = self._read_line() == "ready"
        if self.opened:
            self._process.send_signal(signal.SIGSTOP)

    def ask(self, what: str) -> str:
        """Return the reply to one line; empty if the process has ended."""
        self._process.send_signal(signal.SIGCONT)
        with contextlib.suppress(BrokenPipeError):
            if self._process.stdin:
                self._process.stdin.write(f"{what}\n")
                self._process.stdin.flush()
        reply = self._read_line()
        self._process.send_signal(signal.SIGSTOP)
        return reply

    def close(self) -> None:
        """End the process."""
        self._process.kill()
        self._process.communicate()

    def _read_line(self) -> str:
        return self._process.stdout.readline().strip() if self._process.stdout else ""


def serve(order: Order) -> None:
    """Open one configuration or the winner, and do what each line of the standard input asks for.

    A configuration is opened once with fixed dimensions for each shape, and once for any. A line is the name of a
    shape, whose calls are timed, or ``gate``, whose predictions are saved.
    """
    folder = Path(order["folder"])
    feeds: dict[str, Feeds] = {name: dict(np.load(folder / f"{name}.npz")) for name in (*order["shapes"], "gate")}
    if order["name"] == WINNER:
        call, names = _open_winner(order)
        runs = dict.fromkeys(order["shapes"], call)
        feeds = {name: _rename(arrays, names) for name, arrays in feeds.items()}
    else:
        open_one = _open_openvino if "precision" in order else _open_onnx
        runs = {shape: open_one(order, sizes) for shape, sizes in order["shapes"].items()}
        call = open_one(order, {})
    print("ready", flush=True)
    for line in sys.stdin:
        asked = line.strip()
        if asked == "gate":
            np.save(folder / f"{order['number']}.npy", predict(call, feeds[asked]))
            print("saved", flush=True)
        else:
            print(time_calls(runs[asked], feeds[asked]), flush=True)


def time_calls(call: Call, feeds: Feeds) -> float:
    """Return the median seconds of a burst of calls, after three that are not timed."""
    times: list[float] = []
    for _ in range(3):
        call(feeds)
    end = time.perf_counter() + BURST_SECONDS
    while len(times) < 5 or time.perf_counter() < end:
        start = time.perf_counter()
        call(feeds)
        times.append(time.perf_counter() - start)
    return statistics.median(times)


def predict(call: Call, rows: Feeds) -> Array:
    """Return the logits of all rows, or the mean of their tokens' vectors, of length 1."""
    parts = []
    for start in range(0, len(next(iter(rows.values()))), GATE_BATCH):
        feeds = {name: array[start : start + GATE_BATCH] for name, array in rows.items()}
        found = np.array(call(feeds))
        if found.ndim == 3:
            mask = feeds["attention_mask"][..., None]
            vectors = (found * mask).sum(1) / mask.sum(1)
            found = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
        parts.append(found)
    return np.concatenate(parts)


def _open_winner(order: Order) -> tuple[Call, list[str]]:
    """Open the winner as its user does; return what calls it, and the names of its inputs."""
    import kedro_hone  # noqa: PLC0415 - each process opens one runtime

    learner = kedro_hone.load(order["path"], threads=order["threads"])
    return lambda feeds: next(iter(learner.run(feeds).values())), [spec.name for spec in learner.artifact.inputs]


def _rename(feeds: Feeds, names: list[str]) -> Feeds:
    """Return the arrays under a winner's names, in the order of the source's inputs."""
    return feeds if {*feeds} == {*names} else dict(zip(names, feeds.values(), strict=True))


def _open_onnx(order: Order, sizes: dict[str, int]) -> Call:
    import onnxruntime as ort  # noqa: PLC0415 - see above

    options = ort.SessionOptions()
    options.intra_op_num_threads = order["threads"]
    # This process has a session for each shape, whose threads would wait actively while another one computes.
    options.add_session_config_entry("session.intra_op.spin_duration_us", "500")
    for dimension, size in sizes.items():
        options.add_free_dimension_override_by_name(dimension, size)
    session = ort.InferenceSession(order["path"], options, providers=["CPUExecutionProvider"])
    return lambda feeds: np.asarray(session.run(None, feeds)[0])


def _open_openvino(order: Order, sizes: dict[str, int]) -> Call:
    os.environ["CI"] = "true"  # no telemetry
    import openvino as ov  # noqa: PLC0415 - see above

    core = ov.Core()
    model = core.read_model(order["path"])
    if sizes:
        free = list(sizes.values())
        fixed = {
            port.any_name: [next(left) if dim.is_dynamic else dim.get_length() for dim in port.partial_shape]
            for port in model.inputs
            for left in [iter(free)]
        }
        model.reshape(fixed)
    hints = {"PERFORMANCE_HINT": "LATENCY", "INFERENCE_PRECISION_HINT": order["precision"]}
    compiled = core.compile_model(model, "CPU", {**hints, "INFERENCE_NUM_THREADS": order["threads"]})
    request = compiled.create_infer_request()
    return lambda feeds: request.infer(feeds, share_inputs=True)[0]


if __name__ == "__main__":
    serve(json.loads(sys.argv[1]))
