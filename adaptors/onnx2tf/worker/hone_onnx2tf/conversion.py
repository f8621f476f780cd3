"""Write a LiteRT file for each shape, with the ONNX model's tensor layouts and types, matched by index."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf
from tensorflow.python.framework.convert_to_constants import convert_variables_to_constants_v2

from hone_runtime.sessions import compiled

from . import graphs, layouts

Json = dict[str, Any]
Array = np.ndarray[Any, Any]
Call = Callable[..., list[Any]]

_LARGEST = 2_000_000_000
"""Limit of the weights in bytes, for a protobuf message and for a LiteRT file."""


def transform(job: Json, litert: Any) -> Json:
    """Write ``index.json`` and a file for each shape, in the layout of ``litert``, the module of LiteRT's session."""
    model, inputs, outputs = graphs.read(job["input"]["path"]), job["input"]["inputs"], job["input"]["outputs"]
    if unknown := graphs.find_unknown(model):
        return {"refused": f"onnx2tf has no operator {', '.join(unknown)}"}
    if graphs.count_bytes(model) > _LARGEST:
        return {"refused": f"its weights have more than {_LARGEST} bytes, which no file of LiteRT holds"}
    shapes = [shape for shape in job["shapes"] if compiled.fits(inputs, shape["sizes"])]
    if not shapes:
        return {"refused": f"the model is fixed to {inputs[0]['shape']}, which is none of the recipe's shapes"}
    returned = []
    for number, shape in enumerate(shapes):
        folder = Path(job["temporary"], f"shape-{number}")
        sizes = compiled.find_key(inputs, shape["sizes"])
        try:
            rows = graphs.compute_rows(job, sizes)
            fixed = graphs.fix(model, job["input"], rows[0])
            call = layouts.convert(fixed, rows, folder=folder)
            written = _write(call, job["input"], sizes, folder=folder / "saved", narrowed=litert.NARROWED)
        except (Exception, SystemExit) as error:  # noqa: BLE001 - TensorFlow has dozens of classes, and onnx2tf exits
            return _fail(f"onnx2tf cannot convert it for {shape['name']}", error)
        compiled.find_file(job["output"], shape, litert.ENDING).write_bytes(written)
        returned.append([array.shape for array in rows[0].outputs])
    named = [_name_sizes(spec, [found[n] for found in returned], shapes) for n, spec in enumerate(outputs)]
    index = {
        "inputs": [{**spec, "key": f"in_{number}"} for number, spec in enumerate(inputs)],
        "outputs": [{**spec, "key": f"out_{number}"} for number, spec in enumerate(named)],
    }
    compiled.write_index(job["output"], index)
    return {"outputs": named, "static_shapes": [shape["name"] for shape in shapes]}


def _name_sizes(spec: Json, found: list[tuple[int, ...]], shapes: list[Json]) -> Json:
    """Return an output's spec with only those dimension names that the recipe has, not ``unk__7`` for a sum of others.

    Each other name is replaced by its value at every shape: a number, or a size of the recipe.
    """
    dims = list(spec["shape"])
    for axis, dim in enumerate(dims):
        had = [sizes[axis] for sizes in found]
        if isinstance(dim, str) and any(dim not in shape["sizes"] for shape in shapes):
            same = (name for name in shapes[0]["sizes"] if had == [shape["sizes"].get(name) for shape in shapes])
            dims[axis] = had[0] if len(set(had)) == 1 else next(same, dim)
    return {**spec, "shape": dims}


def _write(
    call: Call, model: Json, sizes: tuple[tuple[int, ...], ...], *, folder: Path, narrowed: Mapping[str, Any]
) -> bytes:
    """Return a LiteRT file whose signature has inputs ``in_0``, ``in_1``, … and outputs ``out_0``, ``out_1``, ….

    ``narrowed`` maps types to the narrower ones that LiteRT's session expects.
    """
    types = [np.dtype(spec["dtype"]).name for spec in model["inputs"]]
    due = [narrowed.get(spec["dtype"], spec["dtype"]) for spec in model["outputs"]]
    specs = [
        tf.TensorSpec(size, narrowed.get(dtype, dtype), name=f"in_{number}")
        for number, (size, dtype) in enumerate(zip(sizes, types, strict=True))
    ]

    def compute(*tensors: Any) -> list[Any]:
        found = call([tf.cast(tensor, dtype) for tensor, dtype in zip(tensors, types, strict=True)])
        return [tf.identity(tf.cast(tensor, dtype)) for tensor, dtype in zip(found, due, strict=True)]

    frozen = convert_variables_to_constants_v2(tf.function(compute, autograph=False).get_concrete_function(*specs))

    def sign(**tensors: Any) -> Json:
        found = frozen(*[tensors[spec.name] for spec in specs])
        values = found if isinstance(found, (list, tuple)) else [found]
        return {f"out_{number}": value for number, value in enumerate(values)}

    signature = tf.function(sign, autograph=False).get_concrete_function(**{spec.name: spec for spec in specs})
    tf.saved_model.save(tf.Module(), str(folder), signatures={"serving_default": signature})
    converter = tf.lite.TFLiteConverter.from_saved_model(str(folder), signature_keys=["serving_default"])
    written: bytes = converter.convert()
    return written


def _fail(what: str, error: BaseException) -> Json:
    reason = " ".join(str(error).split())[:300]
    return {"failed": {"class": "convert", "reason": f"{what}: {type(error).__name__}: {reason}"}}
