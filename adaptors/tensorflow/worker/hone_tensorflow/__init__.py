"""TensorFlow's own code: open Keras models and SavedModels, run them, and convert them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import hone_litert

from hone_runtime.sessions import compiled

Json = dict[str, Any]


def load(job: Json) -> Any:
    """Return a session of a source model, or of its XLA program."""
    from . import session

    xla = job["input"]["format"] == "tensorflow-xla"
    return (session.open_compiled if xla else session.Session)(job)


def transform(job: Json) -> Json:
    """Write the result of the job's adaptor for a model, and return notes."""
    from . import conversion  # slow to import

    return conversion.transform(job)


def describe(job: Json) -> Json:
    """Return the tensors of a source model, or of a converted one.

    Raises:
        KeyError: It is of another format.
    """
    artifact = job["input"]
    match artifact["format"]:
        case "onnx":
            return _describe_onnx(Path(artifact["path"], "model.onnx"))
        case "tflite":
            described: Json = hone_litert.describe(job)
            return described
        case "tensorflow-xla":
            return dict(compiled.read_index(artifact["path"]))
        case "keras" | "saved-model":
            from . import source_models

            return source_models.describe(job)
    raise KeyError(artifact["format"])


def _describe_onnx(path: Path) -> Json:
    import onnx

    graph = onnx.load(path).graph
    return {"inputs": [*map(_specify, graph.input)], "outputs": [*map(_specify, graph.output)]}


def _specify(value: Any) -> Json:
    from onnx import helper

    kind = value.type.tensor_type
    shape = [dim.dim_param or dim.dim_value for dim in kind.shape.dim]
    return {"name": value.name, "dtype": helper.tensor_dtype_to_np_dtype(kind.elem_type).name, "shape": shape}
