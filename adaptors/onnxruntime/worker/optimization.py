"""Save ONNX graphs as ONNX Runtime rewrites them for this CPU."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import onnxruntime as ort

from . import graphs, session

Job = dict[str, Any]


def transform(job: Job) -> dict[str, Any]:
    """Write the rewritten ``model.onnx`` into the job's output.

    From a staged copy: of a model with external data it would save references to files that the output does not have.

    Raises:
        ValueError: The input cannot be read, or its external data is outside its folder.
    """
    model = graphs.read(Path(job["input"]["path"]))
    options = session.make_options(threads=int(job["threads"]), level=job["options"]["optimization"])
    options.optimized_model_filepath = str(Path(job["output"]) / "model.onnx")
    if graphs.is_large(model):
        options.add_session_config_entry("session.optimized_model_external_initializers_file_name", "model.onnx.data")
    ort.InferenceSession(graphs.stage(model, job), options, providers=["CPUExecutionProvider"])
    return {}
