"""ONNX Runtime: optimize, quantize and run ONNX models. Its parts lie beside it in ``worker_*.py``.

Run by path with the python of the toolchain's environment; imports the standard library, numpy and the toolchain only.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

Job = dict[str, Any]
Notes = dict[str, Any]


def transform(job: Job) -> Notes:
    """Write ``model.onnx`` into the job's output as its adaptor demands, and return notes.

    Raises:
        KeyError: The adaptor is not this toolchain's.
        ValueError: The input cannot be read, or its external data lies outside its folder.
    """
    if job["adaptor"] == "onnxruntime.session":
        from . import worker_optimization as part
    else:
        from . import worker_quantization as part  # slow to import
    return part.transform(job)


def describe(job: Job) -> Notes | None:
    """Return the inputs, the outputs and the digest of the graph of ``model.onnx``; None for another format.

    Raises:
        ValueError: The file cannot be read, or its external data lies outside its folder.
    """
    if job["input"]["format"] != "onnx":
        return None
    from . import worker_graphs

    return worker_graphs.describe(Path(job["input"]["path"]))


def load(job: Job) -> Any:
    """Open ``model.onnx``; the run option ``graph_optimization`` says how much of its graph is rewritten at the start.

    Raises:
        ValueError: The file cannot be read, or its external data lies outside its folder.
    """
    from . import worker_session

    return worker_session.open_session(job)
