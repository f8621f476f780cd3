"""One setting of ``throughput.py``, or the winner, in a process of its own, called by several clients at once."""

from __future__ import annotations

import json
import os
import sys
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
from turns import Order

Array = np.ndarray[Any, np.dtype[Any]]
Feeds = dict[str, Array]
Block = Callable[[int], float]
"""Makes some calls, and returns the seconds from the first start to the last end."""

WINNER = "kedro-hone"
BLOCK_SECONDS = 0.15
LEAST = 3  # calls of each client in a block


def serve(order: Order) -> None:
    """Open a setting or the winner for each shape, and print the seconds per call for each shape that is read."""
    folder, clients = Path(order["folder"]), order["clients"]
    feeds: dict[str, Feeds] = {name: dict(np.load(folder / f"{name}.npz")) for name in order["shapes"]}
    blocks: dict[str, Block] = {}
    if order["name"] == WINNER:
        call, names = _open_winner(order)
        for shape, arrays in feeds.items():
            renamed = arrays if {*arrays} == {*names} else dict(zip(names, arrays.values(), strict=True))
            blocks[shape] = _make_block([call] * clients, renamed)
    else:
        for shape, sizes in order["shapes"].items():
            opened = _open_openvino(order, sizes) if order["kind"] == "openvino" else _open_onnx(order, sizes)
            if "queue" in order:
                blocks[shape] = _make_queue(opened, feeds[shape], clients)
            else:
                blocks[shape] = _make_block(opened, feeds[shape])
    counts = {shape: _size(block, clients) for shape, block in blocks.items()}
    print("ready", flush=True)
    for line in sys.stdin:
        shape = line.strip()
        blocks[shape](clients)  # after a stop the first calls take longer
        print(blocks[shape](counts[shape]) / counts[shape], flush=True)


def _size(block: Block, clients: int) -> int:
    """Return how many calls fill a block: as many for each client."""
    block(clients)
    each = min(block(2 * clients) for _ in range(3)) / (2 * clients)
    return clients * max(LEAST, round(BLOCK_SECONDS / each / clients))


def _make_block(calls: list[Callable[[Feeds], object]], feeds: Feeds) -> Block:
    """Return a block of calls by threads, each with a call and arrays of its own."""
    own = [{name: array.copy() for name, array in feeds.items()} for _ in calls]
    for call, arrays in zip(calls, own, strict=True):  # OpenVINO may freeze if its first calls are at once
        call(arrays)
    threads = ThreadPoolExecutor(len(calls))

    def work(number: int, begin: threading.Barrier, left: Any) -> tuple[float, float]:
        call, arrays = calls[number], own[number]
        begin.wait()
        start = time.perf_counter()
        for _ in left:
            call(arrays)
        return start, time.perf_counter()

    def block(count: int) -> float:
        begin, left = threading.Barrier(len(calls)), iter(range(count))
        found = [threads.submit(work, number, begin, left) for number in range(len(calls))]
        starts, ends = zip(*(one.result() for one in found), strict=True)
        return float(max(ends) - min(starts))

    return block


def _make_queue(compiled: Any, feeds: Feeds, clients: int) -> Block:
    """Return a block of calls by OpenVINO's own queue, which one thread fills, with as many requests as clients."""
    import openvino as ov  # noqa: PLC0415 - each process opens one runtime

    queue = ov.AsyncInferQueue(compiled, clients)
    results: list[Array] = []
    queue.set_callback(lambda request, _: results.append(np.array(request.get_output_tensor(0).data)))

    def block(count: int) -> float:
        results.clear()
        start = time.perf_counter()
        for _ in range(count):
            queue.start_async(feeds, share_inputs=True)
        queue.wait_all()
        return time.perf_counter() - start

    return block


def _open_winner(order: Order) -> tuple[Callable[[Feeds], object], list[str]]:
    """Open the winner as a user does; return a function that calls it, and the names of its inputs."""
    import kedro_hone  # noqa: PLC0415 - see above

    learner = kedro_hone.load(order["path"], threads=order["threads"])
    return learner.run, [spec.name for spec in learner.artifact.inputs]


def _open_onnx(order: Order, sizes: dict[str, int]) -> list[Callable[[Feeds], object]]:
    """Return the call of each client: of one session, or of sessions that the clients share out."""
    os.environ["ORT_DISABLE_TELEMETRY"] = "1"
    import onnxruntime as ort  # noqa: PLC0415 - see above

    options = ort.SessionOptions()
    options.intra_op_num_threads = order["intra"]
    for name, value in order["entries"].items():
        options.add_session_config_entry(name, value)
    for dimension, size in sizes.items():
        options.add_free_dimension_override_by_name(dimension, size)
    opened = [
        ort.InferenceSession(order["path"], options, providers=["CPUExecutionProvider"])
        for _ in range(order["sessions"])
    ]

    def make(session: Any) -> Callable[[Feeds], object]:
        return lambda feeds: session.run(None, feeds)[0]

    return [make(opened[client % len(opened)]) for client in range(order["clients"])]


def _open_openvino(order: Order, sizes: dict[str, int]) -> Any:
    """Return the call of each client, which has a request of its own; or the compiled model for a queue."""
    os.environ["CI"] = "true"  # no telemetry
    import openvino as ov  # noqa: PLC0415 - see above

    core = ov.Core()
    model = core.read_model(order["path"])
    free = list(sizes.values())
    model.reshape(
        {
            port.any_name: [next(left) if dim.is_dynamic else dim.get_length() for dim in port.partial_shape]
            for port in model.inputs
            for left in [iter(free)]
        }
    )
    compiled = core.compile_model(model, "CPU", {"INFERENCE_NUM_THREADS": order["threads"], **order["properties"]})
    if "queue" in order:
        return compiled

    def make() -> Callable[[Feeds], object]:
        request = compiled.create_infer_request()
        return lambda feeds: request.infer(feeds, share_inputs=True)[0]

    return [make() for _ in range(order["clients"])]


if __name__ == "__main__":
    serve(json.loads(sys.argv[-1]))
