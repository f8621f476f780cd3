"""One model of ``honesty.py`` in a process of its own: it is loaded as its users load it, and its calls are timed."""

from __future__ import annotations

import ctypes
import importlib
import importlib.util
import json
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

WARM_UP_SECONDS, BURST_SECONDS, LEAST_CALLS = 0.5, 0.1, 10
PR_SET_PDEATHSIG = 1
"""From ``linux/prctl.h``: sets the signal that a process gets when its parent dies."""

Call = Callable[[], object]


def serve(order: dict[str, Any]) -> None:
    """Load one model, warm it up at every shape, and time one burst for each shape named on a line of the input.

    Args:
        order: The configuration from ``honesty.py``; see its ``read_order``.
    """
    import mlflow  # noqa: PLC0415 - slow to import, as the models' frameworks below

    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)  # a stopped process would outlive a killed parent
    mlflow.set_tracking_uri(order["tracking_uri"])
    prepare = load_source(order) if order["model"] == "source" else load_winner(order)
    calls = {name: prepare(make_arrays(order["inputs"], sizes)) for name, sizes in order["shapes"].items()}
    for call in calls.values():
        time_calls(call, seconds=WARM_UP_SECONDS)
    print("ready", flush=True)
    for line in sys.stdin:
        print(time_calls(calls[line.strip()], seconds=BURST_SECONDS), flush=True)


def load_source(order: dict[str, Any]) -> Callable[[dict[str, Any]], Call]:
    """Load the source as its author would, and return a function that makes a call of it from arrays."""
    if order["flavor"] == "onnx":
        return load_onnx_source(order)
    import mlflow.pytorch  # noqa: PLC0415 - each launch imports what its model needs, and nothing else
    import torch  # noqa: PLC0415 - only where it is needed

    torch.set_num_threads(order["threads"])
    model = mlflow.pytorch.load_model(order["source"])
    if order["author"]:
        author = import_author(order["author"])(**order["kwargs"])
        author.load_state_dict(model.state_dict())
        model = author.eval()
    strangers = sorted(name for name in sys.modules if name.partition(".")[0] == "kedro_hone")
    if strangers:
        raise RuntimeError(f"the source must run without kedro-hone, and {strangers[0]} is imported")

    def prepare(arrays: dict[str, Any]) -> Call:
        tensors = [torch.from_numpy(array) for array in arrays.values()]

        def call() -> object:
            with torch.inference_mode():
                return model(*tensors)

        return call

    return prepare


def load_onnx_source(order: dict[str, Any]) -> Callable[[dict[str, Any]], Call]:
    """Open an ONNX model in ONNX Runtime."""
    import mlflow.onnx  # noqa: PLC0415 - only where it is needed
    import onnxruntime  # noqa: PLC0415 - only where it is needed

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = order["threads"]
    model = mlflow.onnx.load_model(order["source"]).SerializeToString()
    session = onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
    return lambda arrays: lambda: session.run(None, arrays)


def load_winner(order: dict[str, Any]) -> Callable[[dict[str, Any]], Call]:
    """Load the winner as its users do, and return a function that makes a call of it from arrays."""
    import kedro_hone  # noqa: PLC0415 - only where it is needed

    winner = kedro_hone.load(order["winner"], threads=order["threads"], trust=["native"])
    if order["call"] == "arrays":
        return lambda arrays: lambda: winner.run(arrays)
    if order["flavor"] == "onnx":
        return lambda arrays: lambda: winner(arrays)
    import torch  # noqa: PLC0415 - only where it is needed

    def prepare(arrays: dict[str, Any]) -> Call:
        tensors = [torch.from_numpy(array) for array in arrays.values()]
        return lambda: winner(*tensors)

    return prepare


def import_author(place: str) -> Any:
    """Return the author's class; the demo's is a file of this repository, read without the package around it."""
    module, _, name = place.rpartition(":")
    if module.startswith("kedro_hone."):
        parts = module.split(".")[1:]
        module = str(Path(__file__).parents[1].joinpath(*parts).with_suffix(".py"))
    if not module.endswith(".py"):
        return getattr(importlib.import_module(module), name)
    spec = importlib.util.spec_from_file_location("author", module)
    if spec is None or spec.loader is None:
        raise ImportError(f"{module} is no python file")
    loaded = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(loaded)
    return getattr(loaded, name)


def make_arrays(inputs: list[dict[str, Any]], sizes: dict[str, int]) -> dict[str, Any]:
    """Return one array for each input: numbers between 0 and 1; the free dimensions get the sizes in their order."""
    rng = np.random.default_rng(0)
    arrays = {}
    for spec in inputs:
        free = iter([sizes["batch"], *(size for name, size in sizes.items() if name != "batch")])
        shape = [next(free) if size == -1 else size for size in spec["shape"]]
        arrays[spec["name"]] = (rng.random(shape) * (1 if spec["dtype"].startswith("f") else 2)).astype(spec["dtype"])
    return arrays


def time_calls(call: Call, *, seconds: float) -> float:
    """Return the median call, in nanoseconds, of a plain loop that lasts some seconds."""
    clock, times = time.perf_counter_ns, list[int]()
    end = time.perf_counter() + seconds
    while len(times) < LEAST_CALLS or time.perf_counter() < end:
        start = clock()
        call()
        times.append(clock() - start)
    return float(np.median(times))


if __name__ == "__main__":
    serve(json.loads(sys.argv[1]))
