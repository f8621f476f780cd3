"""Small networks for ``learner.py``: what a call with a tensor or an array costs over the bare session.

Blocks of calls take turns, and a ratio is of two neighbouring blocks, so that other load affects both. ``bare`` is the
public call of the same session with an array: ``InferenceSession.run``, or ``InferRequest.infer`` with shared inputs.
``by hand`` is the same call with a tensor, converted as any caller would. A composite has ONNX Runtime for one row, and
OpenVINO for 64.
"""

from __future__ import annotations

import gc
import shutil
import statistics
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from hone_runtime.learner.manifest import write_manifest
from hone_runtime.values.artifact import Artifact, TensorSpec
from hone_runtime.values.manifest import Manifest
from hone_runtime.worker.imports import load_file

MOST_MICROSECONDS, MOST_SHARE = 2.0, 0.03
"""The limit of the cost: the larger of these microseconds and this share of the bare call."""

_BLOCKS = {1: 20, 64: 5}
"""The number of calls in a block, by rows."""

_LEAST = 30
"""The least number of blocks of each call."""

_SIZES = [{"batch": 1}, {"batch": 64}]
_OPENVINO = {"INFERENCE_PRECISION_HINT": "f32", "PERFORMANCE_HINT": "LATENCY"}
_HEADS = ("model", "rows", "call", "bare, us", "cost, us", "ratio", "at least", "at most", "CPU", "fast", "holds")

Calls = dict[str, Callable[[], Any]]


@dataclass(frozen=True)
class Blocks:
    """The microseconds of a call, by the clock and of the processor, in each block."""

    wall: list[float]
    cpu: list[float]


def make_winners(folder: Path) -> dict[str, Path]:
    """Write a small network and the demo's, each as ONNX and as a composite, and return their folders."""
    import torch  # noqa: PLC0415 - slow

    file = Path(__file__).parents[1] / "pipelines" / "demo" / "network.py"
    demo = load_file("network", str(file), parts=False).DigitsNet()
    small = torch.nn.Sequential(
        *(torch.nn.Conv2d(1, 8, 3, padding=1), torch.nn.ReLU(), torch.nn.MaxPool2d(2)),
        *(torch.nn.Conv2d(8, 16, 3, padding=1), torch.nn.ReLU(), torch.nn.MaxPool2d(2)),
        *(torch.nn.Flatten(), torch.nn.Linear(64, 10)),
    )
    found = {}
    for name, network in {"small": small, "demo": demo}.items():
        found[name] = _write_onnx(folder / name, network.eval())
        found[f"{name}, composite"] = _write_composite(folder / f"{name}-composite", found[name])
    return found


def _write_onnx(folder: Path, network: Any) -> Path:
    import torch  # noqa: PLC0415 - as above

    folder.mkdir()
    torch.onnx.export(
        network,
        (torch.zeros(2, 1, 8, 8),),
        folder / "model.onnx",
        input_names=["x"],
        output_names=["logits"],
        dynamic_shapes=({0: torch.export.Dim("batch")},),
        dynamo=True,
        external_data=False,
        verbose=False,
    )
    return _seal(folder, "onnx", "onnxruntime", compiled_shapes=_SIZES)


def _write_composite(folder: Path, source: Path) -> Path:
    import openvino as ov  # noqa: PLC0415 - as above

    for number in range(2):
        (folder / "parts" / str(number)).mkdir(parents=True)
    shutil.copy(source / "model.onnx", folder / "parts" / "0")
    model = ov.convert_model(source / "model.onnx")
    ov.save_model(model, folder / "parts" / "1" / "model.xml", compress_to_fp16=False)
    parts: list[dict[str, Any]] = [
        {"runtime": "onnxruntime", "format": "onnx"},
        {"runtime": "openvino", "format": "openvino-ir", "run_options": _OPENVINO},
    ]
    for part, sizes in zip(parts, _SIZES, strict=True):
        part |= {"candidate": part["runtime"], "digest": "", "shapes": {f"batch{sizes['batch']}": sizes}}
        part["metadata"] = {"compiled_shapes": [sizes]}
    return _seal(folder, "composite", "composite", parts=parts)


def _seal(folder: Path, form: Any, runtime: str, **metadata: Any) -> Path:
    artifact = Artifact(
        format=form,
        digest="",
        runtime=runtime,
        inputs=(TensorSpec(name="x", dtype="float32", shape=("batch", 1, 8, 8)),),
        outputs=(TensorSpec(name="logits", dtype="float32", shape=("batch", 10)),),
        metadata={"interface": "pytorch", "threads": 1, **metadata},
    )
    digest = Manifest.measure(folder, artifact.manifest()).digest
    write_manifest(folder, artifact.model_copy(update={"digest": digest}))
    return folder


def make_calls(folder: Path, rows: int) -> Calls:
    """Return the bare call, the same by hand with a tensor, and the calls of the learner."""
    import numpy as np  # noqa: PLC0415 - as above
    import torch  # noqa: PLC0415 - as above

    import kedro_hone  # noqa: PLC0415 - as above

    learner = kedro_hone.load(folder, threads=1)
    arrays: Any = kedro_hone.load(folder, threads=1, interface="onnx")
    array = np.random.default_rng(0).random((rows, 1, 8, 8), dtype=np.float32)
    tensor = torch.from_numpy(array)
    session = learner._session.find((array.shape,))  # noqa: SLF001 - the runtime's own, without our worker
    call = _call_onnxruntime if hasattr(session, "_session") else _call_openvino
    bare = call(session)
    return {
        "bare": partial(bare, array),
        "by hand": lambda: torch.from_numpy(bare(tensor.numpy())),
        "tensor": partial(learner, tensor),
        "array": partial(arrays, array),
        "arrays by name": partial(arrays, {"x": array}),
    }


def _call_onnxruntime(session: Any) -> Callable[[Any], Any]:
    run = session._session.run  # noqa: SLF001 - as above
    return lambda array: run(None, {"x": array})[0]


def _call_openvino(session: Any) -> Callable[[Any], Any]:
    infer = session._compiled.create_infer_request().infer  # noqa: SLF001 - as above
    return lambda array: next(iter(infer({0: array}, share_inputs=True, share_outputs=False).values()))


def measure(calls: Mapping[str, Callable[[], Any]], *, size: int, seconds: float) -> dict[str, Blocks]:
    """Return the times of each call in blocks of ``size`` calls, which take turns until the time is reached."""
    found = {name: Blocks([], []) for name in calls}
    names, until = [*calls], time.monotonic() + seconds
    for call in calls.values():
        for _ in range(20):
            call()
    gc.disable()
    while time.monotonic() < until or len(found[names[0]].wall) < _LEAST:
        names = [*names[1:], names[0]]
        for name in names:
            call = calls[name]
            cpu, wall = time.process_time_ns(), time.perf_counter_ns()
            for _ in range(size):
                call()
            found[name].wall.append((time.perf_counter_ns() - wall) / size / 1000)
            found[name].cpu.append((time.process_time_ns() - cpu) / size / 1000)
    gc.enable()
    return found


def report(folder: Path, *, seconds: float) -> int:
    """Print a line for each network, number of rows and call; return how many calls of the learner cost too much.

    ``cost`` and the ratios are medians over blocks, with a 95 % interval (order statistics); ``fast`` is the ratio of
    the 10th percentiles, which are of undisturbed blocks.
    """
    missed = 0
    print("{:16} {:>4} {:14} {:>9} {:>9} {:>7} {:>8} {:>8} {:>7} {:>7}  {}".format(*_HEADS))
    for name, place in make_winners(folder).items():
        for rows, size in _BLOCKS.items():
            measured = measure(make_calls(place, rows), size=size, seconds=seconds)
            bare = measured.pop("bare")
            for call, taken in measured.items():
                ratios = _divide(taken.wall, bare.wall)
                reach, middle = round(0.98 * len(ratios) ** 0.5), len(ratios) // 2
                bounds = ratios[max(0, middle - reach)], ratios[min(len(ratios) - 1, middle + reach)]
                cost = statistics.median([a - b for a, b in zip(taken.wall, bare.wall, strict=True)])
                holds = cost <= MOST_MICROSECONDS or ratios[middle] <= 1 + MOST_SHARE
                missed += not holds and call != "by hand"
                fast, cpu = _find_fast(taken.wall) / _find_fast(bare.wall), _divide(taken.cpu, bare.cpu)[middle]
                first = f"{name:16} {rows:4} {call:14} {statistics.median(bare.wall):9.1f} {cost:9.2f}"
                last = f"{ratios[middle]:7.3f} {bounds[0]:8.3f} {bounds[1]:8.3f} {cpu:7.3f} {fast:7.3f}"
                print(f"{first} {last}  {holds}", flush=True)
    return missed


def _divide(taken: list[float], bare: list[float]) -> list[float]:
    """Return the ratios of neighbouring blocks, sorted."""
    return sorted(a / b for a, b in zip(taken, bare, strict=True))


def _find_fast(values: list[float]) -> float:
    return sorted(values)[len(values) // 10]
