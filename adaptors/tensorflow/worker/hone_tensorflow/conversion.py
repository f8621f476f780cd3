"""Convert an open model, frozen with its variables as constants: to ONNX, to LiteRT files, and for XLA."""

from __future__ import annotations

import importlib.metadata
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import hone_litert
import tensorflow as tf
from tensorflow.python.framework.convert_to_constants import convert_variables_to_constants_v2

from hone_runtime.sessions import compiled
from hone_runtime.worker.refusal import UnsuitedError

from . import comparison, lite, models, source_models
from .session import name_signature

Json = dict[str, Any]

_LARGEST = 2_000_000_000
"""Limit of constants in bytes, for a protobuf message and for a LiteRT file."""


def transform(job: Json) -> Json:
    """Write the adaptor's result for a model, and return notes."""
    models.limit_threads(int(job["threads"]))
    try:
        model = source_models.open_model(job)
    except UnsuitedError as unsuited:
        return {"refused": str(unsuited)}
    if sum(_measure(variable) for variable in model.variables) > _LARGEST:
        return {"refused": f"its variables have more than {_LARGEST} bytes, which no such file holds"}
    makers = {"tensorflow.onnx": _write_onnx, "tensorflow.tflite": _write_tflite, "tensorflow.xla": _write_compiled}
    try:
        return makers[job["adaptor"]](job, model)
    except UnsuitedError as unsuited:
        return {"refused": str(unsuited)}


def _measure(variable: Any) -> int:
    count = 1
    for size in variable.shape:
        count *= int(size or 1)
    return count * int(tf.as_dtype(variable.dtype).size)


def _freeze(function: Any, count: int) -> Any:
    """Return a function with constants in place of variables; loops and branches are not lowered, as XLA requires.

    Raises:
        UnsuitedError: It has more inputs than ``count``.
    """
    frozen = convert_variables_to_constants_v2(function, lower_control_flow=False, aggressive_inlining=True)
    if len(frozen.inputs) > count:
        kinds = sorted({node.op for node in frozen.graph.as_graph_def().node if "Table" in node.op})
        raise UnsuitedError(f"it looks values up in a table ({', '.join(kinds)}), which is no part of a graph alone")
    return frozen


def _write_onnx(job: Json, model: models.Model) -> Json:
    """Write ``model.onnx`` with the model's dynamic dimensions."""
    import onnx
    import tf2onnx

    make = lite.make_onnx if job["input"]["format"] == lite.FORMAT else _make_onnx
    try:
        made, names = make(job, model)
        proto = tf2onnx.optimizer.optimize_graph(made).make_model("kedro-hone")
    except Exception as error:  # noqa: BLE001 - its many converters raise anything
        return _fail("tf2onnx", error)
    _name_tensors(proto.graph, names, model)
    _name_constants(proto.graph)
    try:
        onnx.checker.check_model(proto, full_check=True)
    except (onnx.checker.ValidationError, onnx.shape_inference.InferenceError) as error:
        return _fail("tf2onnx wrote a graph that ONNX does not take", error)
    onnx.save(proto, Path(job["output"], "model.onnx"))
    if problem := comparison.find_onnx_problem(job, model):
        return {"refused": problem}
    version = importlib.metadata.version("tf2onnx")
    return {"metadata": {"tf2onnx": version}}


def _make_onnx(job: Json, model: models.Model) -> tuple[Any, list[list[str]]]:
    """Return tf2onnx's result for a model, and the names of its input and output tensors.

    tf2onnx freezes the model itself: it recognizes an LSTM or GRU loop in the form that Grappler writes.
    """
    import tf2onnx

    function = models.trace(model)
    sides = (function.inputs[: len(model.inputs)], function.outputs)  # captured tensors follow its inputs
    names = [[tensor.name for tensor in side] for side in sides]
    definition, tables = tf2onnx.tf_loader.from_trackable(model.kept, function, *names, large_model=False)
    with tf.Graph().as_default() as graph:
        tf.import_graph_def(definition, name="")
        made = tf2onnx.tfonnx.process_tf_graph(
            graph,
            opset=job["options"]["opset"],
            input_names=names[0],
            output_names=names[1],
            initialized_tables=tables,
        )
    return made, names


def _name_tensors(graph: Any, names: Sequence[Sequence[str]], model: models.Model) -> None:
    """Give a graph the model's own names and dimensions."""
    new: dict[str, str] = {}
    for given, specs in zip(names, (model.inputs, model.outputs), strict=True):
        new |= {name: spec["name"] for name, spec in zip(given, specs, strict=True)}
    taken = {name for node in _walk(graph) for name in (*node.input, *node.output)} - new.keys()
    if clash := sorted(taken.intersection(new.values())):
        for node in _walk(graph):
            _replace(node, {name: f"{name}__inner" for name in clash})
        for one in graph.initializer:
            one.name = f"{one.name}__inner" if one.name in clash else one.name
    for node in _walk(graph):
        _replace(node, new)
    for values, specs in ((graph.input, model.inputs), (graph.output, model.outputs)):
        by_name = {spec["name"]: spec for spec in specs}
        for value in values:
            value.name = new[value.name]
            dims = value.type.tensor_type.shape
            del dims.dim[:]
            for size in by_name[value.name]["shape"]:
                dims.dim.add(**({"dim_param": size} if isinstance(size, str) else {"dim_value": size}))
    for values, specs in ((graph.input, model.inputs), (graph.output, model.outputs)):
        order = [spec["name"] for spec in specs]
        ordered = sorted(values, key=lambda value: order.index(value.name))
        del values[:]
        values.extend(ordered)


def _name_constants(graph: Any) -> None:
    """Number constants in order of use: of equal constants tf2onnx retains any, a different one in each process."""
    known = {one.name: one for one in graph.initializer}
    returned = {value.name for value in graph.output}
    used = dict.fromkeys(name for node in _walk(graph) for name in node.input if name in known)
    new = {name: f"constant_{number}" for number, name in enumerate(used) if name not in returned}
    for node in _walk(graph):
        _replace(node, new)
    kept = [known[name] for name in (*used, *(known.keys() & returned - used.keys()))]
    for one in kept:
        one.name = new.get(one.name, one.name)
    del graph.initializer[:]
    graph.initializer.extend(kept)


def _walk(graph: Any) -> Iterator[Any]:
    """Yield the nodes of a graph and of the bodies of its branches and loops."""
    for node in graph.node:
        yield node
        for attribute in node.attribute:
            for body in (attribute.g, *attribute.graphs) if attribute.HasField("g") else attribute.graphs:
                yield from _walk(body)


def _replace(node: Any, names: dict[str, str]) -> None:
    for values in (node.input, node.output):
        for number, name in enumerate(values):
            values[number] = names.get(name, name)


def _write_tflite(job: Json, model: models.Model) -> Json:
    """Write a LiteRT file for each shape, and the index."""
    litert, output = hone_litert, Path(job["output"])
    for number, shape in enumerate(job["shapes"]):
        frozen = _freeze(models.trace(model, shape["sizes"], litert.session.NARROWED), len(model.inputs))
        folder = Path(job["temporary"], f"saved-{number}")
        try:
            _save({litert.session.SIGNATURE: frozen}, folder, model, compiled=False)
            converter = tf.lite.TFLiteConverter.from_saved_model(str(folder), signature_keys=[litert.session.SIGNATURE])
            compiled.find_file(output, shape, litert.session.ENDING).write_bytes(converter.convert())
        except Exception as error:  # noqa: BLE001 - it raises any error of MLIR
            return _fail("LiteRT's converter", _shorten(error))
    specs = {
        "inputs": [{**spec, "key": f"in_{number}"} for number, spec in enumerate(model.inputs)],
        "outputs": [{**spec, "key": f"out_{number}"} for number, spec in enumerate(model.outputs)],
    }
    compiled.write_index(output, specs)
    try:
        problem = comparison.find_tflite_problem(job, model, litert)
    except ValueError as error:  # a file cannot be opened, or has other sizes than the model
        return _fail("LiteRT's converter wrote what is not the model", error)
    if problem:
        return {"refused": problem}
    return {"outputs": model.outputs, "static_shapes": [shape["name"] for shape in job["shapes"]]}


def _write_compiled(job: Json, model: models.Model) -> Json:
    """Write a SavedModel with a function for each shape, which XLA compiles at its first call."""
    functions = {
        name_signature(shape): _freeze(models.trace(model, shape["sizes"]), len(model.inputs))
        for shape in job["shapes"]
    }
    _save(functions, Path(job["output"]), model, compiled=True)
    compiled.write_index(job["output"], {"inputs": model.inputs, "outputs": model.outputs})
    return {"outputs": model.outputs, "static_shapes": [shape["name"] for shape in job["shapes"]]}


def _save(functions: dict[str, Any], folder: Path, model: models.Model, *, compiled: bool) -> None:
    """Save frozen functions as signatures of a SavedModel; compiled ones have the model's tensor names."""
    sides = [model.inputs, model.outputs]
    given, returned = (
        [spec["name"] if compiled else f"{word}_{number}" for number, spec in enumerate(specs)]
        for word, specs in zip(("in", "out"), sides, strict=True)
    )
    module, signatures = tf.Module(), {}
    for name, frozen in functions.items():

        def call(frozen: Any = frozen, **tensors: Any) -> Json:
            found = frozen(*[tensors[one] for one in given])
            values = found if isinstance(found, (list, tuple)) else [found]
            return dict(zip(returned, values, strict=True))

        specs = {
            one: tf.TensorSpec(tensor.shape, tensor.dtype, name=one)
            for one, tensor in zip(given, frozen.inputs, strict=True)
        }
        function = tf.function(call, autograph=False, jit_compile=True if compiled else None)
        signatures[name] = function.get_concrete_function(**specs)
    plain = tf.saved_model.SaveOptions(experimental_custom_gradients=False)  # those of a swish could not be found
    tf.saved_model.save(module, str(folder), signatures=signatures, options=plain)


def _shorten(error: Exception) -> Exception:
    """Return an error of MLIR shortened to the operators that it is about; other errors unchanged."""
    found = re.findall(r"TF Select ops: ([\w, ]+\w)", str(error)) or re.findall(r"'tf\.(\w+)' that was", str(error))
    return NotImplementedError(f"LiteRT has not, for such types and sizes: {found[0]}") if found else error


def _fail(what: str, error: Exception) -> Json:
    reason = " ".join(str(error).split())[:300]
    return {"failed": {"class": "convert", "reason": f"{what}: {type(error).__name__}: {reason}"}}
