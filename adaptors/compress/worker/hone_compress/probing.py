"""Compare the speed of a changed network with the source's before it is trained.

Both run in ONNX Runtime, since eager kernels judge small layers wrongly: two thin convolutions are slower there than
the one that they replace, and faster once they are compiled.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
from hone_pytorch import jobs, steps

from hone_runtime.worker.refusal import UnsuitedError

from .progress import print_line

Json = dict[str, Any]
Feeds = dict[str, np.ndarray[Any, Any]]

_LEAST_SPEEDUP = 1.02
_ROUNDS, _SECONDS = 11, 0.02
_MOST_SECONDS = 10.0
_OPSET = 20


def check_gain(
    job: Json, source: torch.export.ExportedProgram, changed: torch.export.ExportedProgram, described: Json
) -> None:
    """Compare the times of two programs by turns, at each shape of the recipe.

    Raises:
        UnsuitedError: The changed one is faster at none.
    """
    programs = {"source": source, "changed": changed}
    try:
        sessions = [_open(job, name, program, described) for name, program in programs.items()]
    except Exception as error:  # noqa: BLE001 - torch raises dozens of classes; the runtimes decide later
        print_line(f"its speed is not compared, since it cannot be written as ONNX: {error}")
        return
    gains = dict[str, float]()
    for shape in job["shapes"]:
        examples = jobs.make_examples(described["inputs"], _choose_sizes(job, described, shape["sizes"]))
        feeds = {spec["name"]: one.numpy() for spec, one in zip(described["inputs"], examples, strict=True)}
        times: list[list[float]] = [[], []]
        began = time.perf_counter()
        while len(times[0]) < _ROUNDS and (len(times[0]) < 2 or time.perf_counter() - began < _MOST_SECONDS):
            for session, spent in zip(sessions, times, strict=True):
                spent.append(_time(session, feeds))
        gains[shape["name"]] = min(times[0]) / min(times[1])
    shown = " and ".join(f"{gain:.2f} times as fast at {name}" for name, gain in gains.items())
    print_line(f"before training it is {shown}")
    if max(gains.values()) < _LEAST_SPEEDUP:
        raise UnsuitedError(f"it would not be faster, and is not trained: {shown}")


def _choose_sizes(job: Json, described: Json, sizes: Mapping[str, int]) -> dict[str, int]:
    return {**jobs.choose_sizes(job, described["inputs"]), **sizes}


def _open(job: Json, name: str, program: torch.export.ExportedProgram, described: Json) -> Any:
    import onnxruntime

    folder = Path(job["temporary"]) / name
    folder.mkdir()
    steps.write_onnx(program, folder / "model.onnx", described, opset=_OPSET)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = job["threads"]
    options.log_severity_level = 3
    return onnxruntime.InferenceSession(folder / "model.onnx", options, providers=["CPUExecutionProvider"])


def _time(session: Any, feeds: Feeds) -> float:
    """Return the seconds of a call, over as many as fit into a round."""
    began, calls = time.perf_counter(), 0
    while (spent := time.perf_counter() - began) < _SECONDS or calls < 2:
        session.run(None, feeds)
        calls += 1
    return spent / calls
