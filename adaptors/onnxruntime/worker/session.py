"""Run ONNX models on numpy arrays, which needs ONNX Runtime and nothing else; and save what it rewrites first."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime as ort
from hone_loading import require_cpu

Array = np.ndarray[Any, Any]


class Session:
    """An ONNX model in ONNX Runtime on the CPU, opened as its users do: default waiting policy, default arenas."""

    def __init__(self, path: Path, options: Any) -> None:
        self._session = ort.InferenceSession(path, options, providers=["CPUExecutionProvider"])
        self._outputs = [output.name for output in self._session.get_outputs()]

    def run(self, feeds: dict[str, Array]) -> dict[str, Array]:
        """Return every output by name, for inputs by name."""
        return dict(zip(self._outputs, self._session.run(None, feeds), strict=True))


def open_session(job: dict[str, Any]) -> Session:
    """Open ``model.onnx``; the run option ``graph_optimization`` says how much of its graph is rewritten now.

    Raises:
        ValueError: The file cannot be read, its external data is outside its folder, or it is for another device.
    """
    require_cpu(job)
    level = job["input"].get("run_options", {}).get("graph_optimization", "all")
    try:
        return Session(Path(job["input"]["path"]) / "model.onnx", _make_options(job, level))
    except Exception as error:  # ONNX Runtime's exception classes differ between versions, their messages do not
        text = str(error)
        if "xternal data" in text and ("escapes" in text or "outside" in text or "under" in text):
            raise ValueError(f"external data is outside the model's folder: {text}") from error
        if any(sign in text for sign in ("INVALID_PROTOBUF", "Protobuf parsing failed", "No graph was found")):
            raise ValueError("model.onnx cannot be read: it is truncated, corrupt or no ONNX file") from error
        raise


def save_rewritten(job: dict[str, Any]) -> dict[str, Any]:
    """Save ``model.onnx`` as ONNX Runtime rewrites it for this CPU.

    From a staged copy: of a model with external data it would save references to files that the output does not have.
    """
    from . import graphs

    model = graphs.read(Path(job["input"]["path"]))
    options = _make_options(job, job["options"]["optimization"])
    options.optimized_model_filepath = str(Path(job["output"]) / "model.onnx")
    if graphs.is_large(model):
        options.add_session_config_entry("session.optimized_model_external_initializers_file_name", "model.onnx.data")
    Session(graphs.stage(model, job), options)
    return {}


def _make_options(job: dict[str, Any], level: str) -> Any:
    options = ort.SessionOptions()
    options.intra_op_num_threads = int(job["threads"])
    name = "ORT_DISABLE_ALL" if level == "disabled" else f"ORT_ENABLE_{level.upper()}"
    options.graph_optimization_level = getattr(ort.GraphOptimizationLevel, name)
    return options
