"""SavedModels: one of their signatures, called as their authors call it."""

from __future__ import annotations

import re
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import tensorflow as tf
from tensorflow.core.protobuf import saved_model_pb2

from hone_runtime.worker.refusal import UnsuitedError

from .models import Json, Model, Tensors, adopt, reseed, specify

_DEFAULT = "serving_default"
_FILE = "saved_model.pb"


def open_saved(artifact: Json, *, seed: int) -> Model:
    """Open a signature of a SavedModel: the one in the recipe, else ``serving_default`` or the only one.

    Raises:
        UnsuitedError: The model is refused.
    """
    loaded = _load(artifact["path"])
    name = _choose(loaded, artifact.get("metadata", {}).get("signature"))
    signature = loaded.signatures[name]
    variables = tuple(getattr(signature, "variables", ()))
    reseed(variables, seed)
    _refuse_ragged(artifact["path"], name)
    args, kwargs = signature.structured_input_signature
    if args:
        raise UnsuitedError("its signature takes inputs without names")
    inputs = [specify(name, kwargs[name]) for name in sorted(kwargs)]
    outputs = [specify(name, signature.structured_outputs[name]) for name in sorted(signature.structured_outputs)]
    if not inputs or not outputs:
        raise UnsuitedError("its signature takes or returns no tensor")

    call: Callable[[Tensors], Tensors] = lambda tensors: signature(**tensors)  # noqa: E731 - as its author does
    direct = call
    if not _find_graph(_read(artifact["path"])).HasField("object_graph_def"):
        call = _freeze(artifact["path"], name)
    return Model(adopt(artifact, inputs), outputs, call, direct, dict, None, loaded, variables)


def _load(path: str) -> Any:
    """Load a SavedModel, without its optimizer's state if the optimizer's class is not installed."""
    saved = _read(path)
    tags = [*_find_graph(saved).meta_info_def.tags]
    try:
        return _load_from(path, tags)
    except AttributeError as error:
        if "add_slot" not in str(error):
            raise
    for node in (node for graph in saved.meta_graphs for node in graph.object_graph_def.nodes):
        del node.slot_variables[:]
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, _FILE).write_bytes(saved.SerializeToString())
        for part in ("variables", "assets"):
            if (place := Path(path, part).resolve()).is_dir():
                Path(folder, part).symlink_to(place)
        return _load_from(folder, tags)


def _load_from(folder: str, tags: list[str]) -> Any:
    try:
        return tf.saved_model.load(folder, tags=tags)
    except (OSError, tf.errors.OpError) as error:
        if found := re.search(r"Op type not registered '(\w+)'", str(error)):
            raise UnsuitedError(f"it has the operator {found[1]}, which is of a library beyond TensorFlow") from error
        raise ValueError(" ".join(str(error).split()).replace(f"{folder}/", "")[:300]) from error


def _freeze(path: str, name: str) -> Callable[[Tensors], Tensors]:
    """Return a TensorFlow 1 signature with constants in place of variables, which are of another kind there."""
    with tf.Graph().as_default() as graph, tf.compat.v1.Session(graph=graph) as session:
        tags = [*_find_graph(_read(path)).meta_info_def.tags]
        loaded = tf.compat.v1.saved_model.load(session, tags, path).signature_def[name]
        ends = sorted({one.name.partition(":")[0] for one in loaded.outputs.values()})
        frozen = tf.compat.v1.graph_util.convert_variables_to_constants(session, graph.as_graph_def(), ends)
    whole = tf.compat.v1.wrap_function(lambda: tf.import_graph_def(frozen, name=""), [])
    given, returned = (
        {key: whole.graph.get_tensor_by_name(side[key].name) for key in sorted(side)}
        for side in (loaded.inputs, loaded.outputs)
    )
    function = whole.prune(feeds=[*given.values()], fetches=returned)
    return lambda tensors: function(*(tensors[key] for key in given))


def _read(path: str) -> Any:
    saved = saved_model_pb2.SavedModel.FromString(Path(path, _FILE).read_bytes())
    if not saved.meta_graphs:
        raise ValueError(f"{_FILE} holds no graph")
    return saved


def _refuse_ragged(path: str, name: str) -> None:
    """Refuse a signature of a function with ragged tensors: it takes their components, whose numbers of rows differ.

    Raises:
        UnsuitedError: The signature has ragged tensors.
    """
    graph = _find_graph(_read(path))
    library = {one.signature.name: one for one in graph.graph_def.library.function}
    known = graph.object_graph_def.concrete_functions
    ends = {one.name.partition(":")[0] for one in graph.signature_def[name].outputs.values()}
    wrapped = [called for node in graph.graph_def.node if node.name in ends for called in _list_called(node)]
    inner = [
        called for one in wrapped if one in library for node in library[one].node_def for called in _list_called(node)
    ]
    specs = [str(known[one].canonicalized_input_signature) for one in (*wrapped, *inner) if one in known]
    if any("RAGGED_TENSOR_SPEC" in one for one in specs):
        raise UnsuitedError(
            "its signature takes ragged tensors: export one that takes a dense tensor, such as its to_tensor()"
        )


def _find_graph(saved: Any) -> Any:
    """Return the graph for serving if there are several; else the first."""
    serving = (graph for graph in saved.meta_graphs if [*graph.meta_info_def.tags] == [tf.saved_model.SERVING])
    return next(serving, saved.meta_graphs[0])


def _list_called(node: Any) -> list[str]:
    return [one.func.name for one in node.attr.values() if one.HasField("func")]


def _choose(loaded: Any, name: str | None) -> str:
    known = [one for one in loaded.signatures if not one.startswith("__")]
    listed = ", ".join(sorted(known)) or "none"
    if name is not None:
        if name not in known:
            raise UnsuitedError(f"it has no signature {name!r}; its signatures are: {listed}", "recipe-invalid")
        return name
    if _DEFAULT in known or len(known) == 1:
        return _DEFAULT if _DEFAULT in known else known[0]
    if not known:
        raise UnsuitedError("it has no signature: save it by tf.saved_model.save(model, folder, signatures=function)")
    raise UnsuitedError(f"it has several signatures: {listed}", "recipe-invalid")
