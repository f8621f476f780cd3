"""Open Keras models and SavedModels, each as a function from tensors by name to tensors by name."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

os.environ.setdefault("KERAS_BACKEND", "tensorflow")
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")  # its notes on instructions and oneDNN

import tensorflow as tf

Json = dict[str, Any]
Tensors = dict[str, Any]


class Unsuited(Exception):  # noqa: N818 - a reason, not an error
    """Why a model is not taken."""


@dataclass(frozen=True)
class Model:
    """A model that is open.

    Attributes:
        inputs: The specs of its inputs, in the author's order; ``outputs`` are those of its outputs.
        call: From tensors by name to tensors by name; it can be traced.
        direct: The author's own call, on what ``arrange`` makes of tensors by name.
        arrange: Gives tensors by name the structure that the author's call takes.
        structure: For the learner: whether inputs and outputs are ``single``, a ``list`` or a ``dict``; None for a
            SavedModel, whose signature takes and returns names.
        kept: What owns the variables.
    """

    inputs: list[Json]
    outputs: list[Json]
    call: Callable[[Tensors], Tensors]
    direct: Callable[[Any], Any]
    arrange: Callable[[Tensors], Any]
    structure: Json | None
    kept: Any


def open_model(artifact: Json) -> Model:
    """Open a model of the format ``keras`` or ``saved-model``.

    Raises:
        Unsuited: It cannot be taken.
        KeyError: It is of another format.
    """
    openers = {"keras": _open_keras, "saved-model": _open_saved}
    return openers[artifact["format"]](artifact)


def limit_threads(threads: int) -> None:
    """Give TensorFlow so many threads.

    Raises:
        ValueError: It was started with another number in this process, which cannot be changed.
    """
    if tf.config.threading.get_intra_op_parallelism_threads() == threads:
        return
    try:
        tf.config.threading.set_intra_op_parallelism_threads(threads)
        tf.config.threading.set_inter_op_parallelism_threads(1)
    except RuntimeError as error:
        had = tf.config.threading.get_intra_op_parallelism_threads() or "all"
        raise ValueError(
            f"TensorFlow runs with {had} threads in this process already, and not with {threads}"
        ) from error


def _open_keras(artifact: Json) -> Model:
    import keras

    path = Path(artifact["path"], "model.keras")
    try:
        model = keras.models.load_model(path, compile=False, safe_mode=True)
    except (ValueError, TypeError, AttributeError, ImportError) as error:
        said = " ".join(str(error).split())
        if "safe_mode" in said or "unsafe" in said.lower():
            raise Unsuited(
                "it holds a Lambda layer, which is code: export it as a SavedModel by model.export"
            ) from error
        if "locate class" in said or "custom" in said.lower():
            raise Unsuited(f"it needs a class of its author's, so export it as a SavedModel: {said[:200]}") from error
        raise
    if not getattr(model, "inputs", None) or not getattr(model, "outputs", None):
        raise Unsuited("it was never built, so that its inputs are not known: call it once and save it again")
    given, returned = _read_side(model, "input"), _read_side(model, "output")
    inputs, outputs = [_specify(*pair) for pair in given[1]], [_specify(*pair) for pair in returned[1]]

    def arrange(tensors: Tensors) -> Any:
        return _arrange([tensors[spec["name"]] for spec in inputs], given, inputs)

    def call(tensors: Tensors) -> Tensors:
        found = model(arrange(tensors), training=False)
        if returned[0] == "dict":
            return {name: found[name] for name, _ in returned[1]}
        values = [found] if returned[0] == "single" else [*found]
        return {spec["name"]: value for spec, value in zip(outputs, values)}  # noqa: B905 - Keras checks it

    structure = {"inputs": given[0], "outputs": returned[0]}
    direct = lambda value: model(value, training=False)  # noqa: E731 - the call as its author makes it
    return Model(_adopt(artifact, inputs), outputs, call, direct, arrange, structure, model)


def _read_side(model: Any, side: str) -> tuple[str, list[tuple[str, Any]]]:
    """Return the kind of structure that a model takes or returns, and its tensors by unique names."""
    said, tensors = getattr(model, side), getattr(model, f"{side}s")
    if isinstance(said, dict):
        if any(not hasattr(value, "dtype") for value in said.values()):
            raise Unsuited(f"its {side}s are nested")
        return "dict", [*said.items()]
    listed = isinstance(said, (list, tuple))
    if listed and any(not hasattr(value, "dtype") for value in said):
        raise Unsuited(f"its {side}s are nested")
    names = [tensor.name for tensor in tensors] if side == "input" else [*model.output_names]
    unique = [name if names.count(name) == 1 else f"{name}_{number}" for number, name in enumerate(names)]
    return ("list" if listed else "single"), [*zip(unique, tensors)]  # noqa: B905 - of one length


def _arrange(values: list[Any], given: tuple[str, list[tuple[str, Any]]], specs: list[Json]) -> Any:
    if given[0] == "dict":
        return {spec["name"]: value for spec, value in zip(specs, values)}  # noqa: B905 - of one length
    return values[0] if given[0] == "single" else values


def _open_saved(artifact: Json) -> Model:
    loaded = tf.saved_model.load(artifact["path"])
    signatures = {name: one for name, one in loaded.signatures.items() if not name.startswith("__")}
    signature = signatures.get("serving_default") or next(iter(signatures.values()), None)
    if signature is None or (len(signatures) > 1 and "serving_default" not in signatures):
        raise Unsuited(f"it has no signature serving_default, but {', '.join(sorted(signatures)) or 'none'}")
    args, kwargs = signature.structured_input_signature
    if args:
        raise Unsuited("its signature takes inputs without names")
    inputs = [_specify(name, kwargs[name]) for name in sorted(kwargs)]
    outputs = [_specify(name, signature.structured_outputs[name]) for name in sorted(signature.structured_outputs)]
    if not inputs or not outputs:
        raise Unsuited("its signature takes or returns no tensor")

    def call(tensors: Tensors) -> Tensors:
        found: Tensors = signature(**tensors)
        return found

    direct = lambda tensors: signature(**tensors)  # noqa: E731 - the call as its author makes it
    return Model(_adopt(artifact, inputs), outputs, call, direct, dict, None, loaded)


def _specify(name: str, tensor: Any) -> Json:
    """Return the spec of a tensor; its first axis, where it is dynamic, is ``batch``."""
    shape, dtype = tensor.shape, tf.as_dtype(tensor.dtype)
    if dtype == tf.string:
        raise Unsuited(f"{name} is text, which its conversions do not take")
    if getattr(shape, "rank", 0) is None:
        raise Unsuited(f"{name} has any number of dimensions")
    names = ["batch", *(f"{name}_{axis}" for axis in range(1, len(shape)))]
    sizes = [size if size is not None else axis for size, axis in zip(shape, names)]  # noqa: B905 - of one length
    return {"name": name, "dtype": dtype.as_numpy_dtype().dtype.name, "shape": sizes}


def _adopt(artifact: Json, own: list[Json]) -> list[Json]:
    """Return the inputs, with the names of dynamic dimensions that the recipe gave them."""
    given = {spec["name"]: spec for spec in artifact.get("inputs") or []}
    return [
        {**spec, "shape": given[spec["name"]]["shape"]} if _names_dims(spec, given.get(spec["name"])) else spec
        for spec in own
    ]


def _names_dims(own: Json, given: Json | None) -> bool:
    return (
        given is not None
        and given["dtype"] == own["dtype"]
        and len(given["shape"]) == len(own["shape"])
        and all(isinstance(mine, str) or mine == theirs for mine, theirs in zip(own["shape"], given["shape"]))  # noqa: B905
    )
