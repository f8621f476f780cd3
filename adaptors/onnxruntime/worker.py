"""ONNX Runtime: optimize, quantize and run ONNX models. Its parts lie beside it in ``worker_*.py``.

Run by path with the python of the toolchain's environment; imports the standard library, numpy and the toolchain only.
"""

from __future__ import annotations

import importlib
import sys
import types
from pathlib import Path
from typing import Any

Job = dict[str, Any]
Notes = dict[str, Any]

_PACKAGE = "_kedro_hone_onnxruntime"


def _part(name: str) -> types.ModuleType:
    """Return a part of this worker. The parts form a package of their own, since this file is loaded by path."""
    if _PACKAGE not in sys.modules:
        package = types.ModuleType(_PACKAGE)
        package.__path__ = [str(Path(__file__).parent)]
        sys.modules[_PACKAGE] = package
    return importlib.import_module(f"{_PACKAGE}.worker_{name}")


def transform(job: Job) -> Notes:
    """Write ``model.onnx`` into the job's output as its adaptor demands, and return notes.

    Raises:
        KeyError: The adaptor is not this toolchain's.
        ValueError: The input cannot be read, or its external data lies outside its folder.
    """
    part = "optimization" if job["adaptor"] == "onnxruntime.session" else "quantization"  # the latter is slow to import
    return _part(part).transform(job)


def describe(job: Job) -> Notes | None:
    """Return the inputs, the outputs and the digest of the graph of ``model.onnx``; None for another format.

    Raises:
        ValueError: The file cannot be read, or its external data lies outside its folder.
    """
    return _part("graphs").describe(Path(job["input"]["path"])) if job["input"]["format"] == "onnx" else None


def load(job: Job) -> Any:
    """Open ``model.onnx``; the run option ``graph_optimization`` says how much of its graph is rewritten at the start.

    Raises:
        ValueError: The file cannot be read, or its external data lies outside its folder.
    """
    return _part("session").open_session(job)
