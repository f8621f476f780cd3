"""SavedModels: one of their signatures, as their authors call it."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import tensorflow as tf
from tensorflow.core.protobuf import saved_model_pb2

from .models import Json, Model, Tensors, Unsuited, adopt, reseed, specify

_DEFAULT = "serving_default"
_FILE = "saved_model.pb"


def open_saved(artifact: Json, *, seed: int) -> Model:
    """Open a signature of a SavedModel: that which the recipe names, else ``serving_default`` or the only one.

    Raises:
        Unsuited: It cannot be taken.
    """
    loaded = _load(artifact["path"])
    name = _choose(loaded, artifact.get("metadata", {}).get("signature"))
    signature = loaded.signatures[name]
    variables = tuple(getattr(signature, "variables", ()))
    reseed(variables, seed)
    _refuse_ragged(artifact["path"], name)
    args, kwargs = signature.structured_input_signature
    if args:
        raise Unsuited("its signature takes inputs without names")
    inputs = [specify(name, kwargs[name]) for name in sorted(kwargs)]
    outputs = [specify(name, signature.structured_outputs[name]) for name in sorted(signature.structured_outputs)]
    if not inputs or not outputs:
        raise Unsuited("its signature takes or returns no tensor")

    def call(tensors: Tensors) -> Tensors:
        found: Tensors = signature(**tensors)
        return found

    direct = lambda tensors: signature(**tensors)  # noqa: E731 - the call as its author makes it
    return Model(adopt(artifact, inputs), outputs, call, direct, dict, None, loaded, variables)


def _load(path: str) -> Any:
    """Load a SavedModel, without what its optimizer kept of the training where the optimizer's class is not here."""
    try:
        return tf.saved_model.load(path)
    except AttributeError as error:
        if "add_slot" not in str(error):
            raise
    saved = _read(path)
    for node in (node for graph in saved.meta_graphs for node in graph.object_graph_def.nodes):
        del node.slot_variables[:]
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, _FILE).write_bytes(saved.SerializeToString())
        for part in ("variables", "assets"):
            if (place := Path(path, part).resolve()).is_dir():
                Path(folder, part).symlink_to(place)
        return tf.saved_model.load(folder)


def _read(path: str) -> Any:
    return saved_model_pb2.SavedModel.FromString(Path(path, _FILE).read_bytes())


def _refuse_ragged(path: str, name: str) -> None:
    """Refuse a signature around a function of ragged tensors: it takes their parts, which are of other numbers of rows.

    Raises:
        Unsuited: It is one.
    """
    graph = _read(path).meta_graphs[0]
    library = {one.signature.name: one for one in graph.graph_def.library.function}
    known = graph.object_graph_def.concrete_functions
    ends = {one.name.partition(":")[0] for one in graph.signature_def[name].outputs.values()}
    wrapped = [called for node in graph.graph_def.node if node.name in ends for called in _list_called(node)]
    inner = [
        called for one in wrapped if one in library for node in library[one].node_def for called in _list_called(node)
    ]
    specs = [str(known[one].canonicalized_input_signature) for one in (*wrapped, *inner) if one in known]
    if any("RAGGED_TENSOR_SPEC" in one for one in specs):
        raise Unsuited(
            "its signature takes ragged tensors: export one that takes a dense tensor, such as its to_tensor()"
        )


def _list_called(node: Any) -> list[str]:
    return [one.func.name for one in node.attr.values() if one.HasField("func")]


def _choose(loaded: Any, name: str | None) -> str:
    known = [one for one in loaded.signatures if not one.startswith("__")]
    listed = ", ".join(sorted(known)) or "none"
    if name is not None:
        if name not in known:
            raise Unsuited(f"it has no signature {name!r}; its signatures are: {listed}", "recipe-invalid")
        return name
    if _DEFAULT in known or len(known) == 1:
        return _DEFAULT if _DEFAULT in known else known[0]
    if not known:
        raise Unsuited("it has no signature: save it by tf.saved_model.save(model, folder, signatures=function)")
    raise Unsuited(f"it has several signatures: {listed}", "recipe-invalid")
