"""LiteRT files as sources: opened by LiteRT itself, and converted to ONNX by tf2onnx, which reads them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import hone_litert
import numpy as np

from hone_runtime.worker.refusal import UnsuitedError

from .models import Json, Model, Tensors

FORMAT = "tflite-file"


def open_file(job: Json) -> Model:
    """Open a LiteRT file.

    Raises:
        UnsuitedError: The file is refused.
    """
    litert = hone_litert
    described = litert.describe(job)
    if "refused" in described:
        raise UnsuitedError(described["refused"])
    session = litert.load(job)

    def call(tensors: Tensors) -> Tensors:
        found: Tensors = session.run({name: np.asarray(tensor) for name, tensor in tensors.items()})
        return found

    return Model(described["inputs"], described["outputs"], call, call, dict, None, session)


def make_onnx(job: Json, model: Model) -> tuple[Any, list[list[str]]]:
    """Return tf2onnx's result for a file, and the names of its input and output tensors."""
    import tensorflow as tf
    import tf2onnx

    litert = hone_litert
    path = Path(job["input"]["path"], "model.tflite")
    found = litert.files.list_tensors(litert.files.open_file(job["input"]["path"], 1))
    names = [
        [str(found[side][spec["name"]]["name"]) for spec in getattr(model, side)] for side in ("inputs", "outputs")
    ]
    with tf.Graph().as_default():
        made = tf2onnx.tfonnx.process_tf_graph(
            None,
            opset=job["options"]["opset"],
            tflite_path=str(path),
            input_names=names[0],
            output_names=names[1],
        )
    return made, names
