"""Run ONNX models on numpy arrays. Needs ONNX Runtime and nothing else."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime as ort

Job = dict[str, Any]
Array = np.ndarray[Any, Any]

LEVELS = {
    "disabled": "ORT_DISABLE_ALL",
    "basic": "ORT_ENABLE_BASIC",
    "extended": "ORT_ENABLE_EXTENDED",
    "layout": "ORT_ENABLE_LAYOUT",
    "all": "ORT_ENABLE_ALL",
}


def make_options(*, threads: int, level: str) -> Any:
    """Return the options of a session: its threads, and how much of the graph it rewrites."""
    options = ort.SessionOptions()
    options.intra_op_num_threads = threads
    options.graph_optimization_level = getattr(ort.GraphOptimizationLevel, LEVELS[level])
    return options


class Session:
    """An ONNX model in ONNX Runtime on the CPU, opened as its users do: default waiting policy, default arenas."""

    def __init__(self, path: Path, *, threads: int, optimization: str = "all") -> None:
        options = make_options(threads=threads, level=optimization)
        self._session = ort.InferenceSession(path, options, providers=["CPUExecutionProvider"])
        self._outputs = [output.name for output in self._session.get_outputs()]

    def run(self, feeds: dict[str, Array]) -> dict[str, Array]:
        """Return every output by name, for inputs by name."""
        return dict(zip(self._outputs, self._session.run(None, feeds), strict=True))

    def close(self) -> None:
        """Release the session and its threads."""
        del self._session


def open_session(job: Job) -> Session:
    """Open ``model.onnx``; the run option ``graph_optimization`` says how much of its graph is rewritten at the start.

    Raises:
        ValueError: The file cannot be read, or its external data is outside its folder.
    """
    path = Path(job["input"]["path"]) / "model.onnx"
    level = job["input"].get("run_options", {}).get("graph_optimization", "all")
    try:
        return Session(path, threads=int(job["threads"]), optimization=level)
    except Exception as error:  # ONNX Runtime's exception classes differ between versions, their messages do not
        text = str(error)
        if "xternal data" in text and ("escapes" in text or "outside" in text or "under" in text):
            raise ValueError(f"external data is outside the model's folder: {text}") from error
        if any(sign in text for sign in ("INVALID_PROTOBUF", "Protobuf parsing failed", "No graph was found")):
            raise ValueError("model.onnx cannot be read: it is truncated, corrupt or no ONNX file") from error
        raise
