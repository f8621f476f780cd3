"""One configuration of ``by_hand.py``, or the winner, in a process of its own."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from turns import Order, time_calls

Array = np.ndarray[Any, np.dtype[Any]]
Feeds = dict[str, Array]
Call = Callable[[Feeds], Array]

WINNER = "kedro-hone"
GATE_BATCH = 64


def serve(order: Order) -> None:
    """Open one configuration or the winner, and process each line of the standard input.

    A configuration is opened once with fixed dimensions for each shape, and once for any. A line is the name of a
    shape, for which calls are timed, or ``gate``, for which predictions are saved.
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


def predict(call: Call, rows: Feeds) -> Array:
    """Return the logits of all rows, or the mean of their tokens' vectors, normalized to length 1."""
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
    """Open the winner as a user does; return a function that calls it, and the names of its inputs."""
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
    # This process has a session for each shape; its threads would wait actively while another session computes.
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
    serve(json.loads(sys.argv[-1]))
