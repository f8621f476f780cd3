"""ONNX Runtime: optimize, quantize and run ONNX models.

Run by path with the python of the toolchain's environment; imports the standard library, numpy and the toolchain only.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

Job = dict[str, Any]
Notes = dict[str, Any]


def transform(job: Job) -> Notes:
    """Write ``model.onnx`` into the job's output as its adaptor requires, and return notes.

    Raises:
        KeyError: The adaptor is not this toolchain's.
        ValueError: The input cannot be read, or its external data is outside its folder.
    """
    if job["adaptor"] == "onnxruntime.session":
        from . import optimization

        return optimization.transform(job)
    from . import quantization  # slow to import

    return quantization.transform(job)


def describe(job: Job) -> Notes | None:
    """Return the inputs, the outputs and the digest of the graph of ``model.onnx``; None for another format.

    A model that is not taken gives ``refused`` with the reason, and ``slug`` where its external data is located outside
    its folder.

    Raises:
        ValueError: The file cannot be read.
    """
    if job["input"]["format"] != "onnx":
        return None
    from . import graphs

    return graphs.describe(Path(job["input"]["path"]))


def load(job: Job) -> Any:
    """Open ``model.onnx``; the run option ``graph_optimization`` says how much of its graph is rewritten at the start.

    Raises:
        ValueError: The file cannot be read, or its external data is outside its folder.
    """
    from . import session

    return session.open_session(job)
