"""Keras models: a file ``model.keras`` of a Sequential, functional or subclassed model without custom code."""

from __future__ import annotations

import zipfile
from pathlib import Path
from typing import Any

import tensorflow as tf

from hone_runtime.worker.refusal import UnsuitedError

from .models import Json, Model, Tensors, adopt, specify

_EXPORT = "export it as a SavedModel by model.export(folder), and name that folder"


def open_keras(artifact: Json) -> Model:
    """Open a model of Keras.

    Raises:
        UnsuitedError: The model is refused.
    """
    model = _load(Path(artifact["path"], "model.keras"))
    if not getattr(model, "inputs", None) or not getattr(model, "outputs", None):
        raise UnsuitedError("it was never built, so that its inputs are not known: call it once and save it again")
    variables = tuple(one.value for one in model.variables)
    given, returned = _read_side(model, "input"), _read_side(model, "output")
    inputs, outputs = ([specify(*pair) for pair in side[1]] for side in (given, returned))
    specs = inputs  # named by its author, or from the first call

    def arrange(tensors: Tensors) -> Any:
        return _arrange([tensors[spec["name"]] for spec in specs], given, specs)

    def call(tensors: Tensors) -> Tensors:
        found = model(arrange(tensors), training=False)
        if returned[0] == "dict":
            return {name: found[name] for name, _ in returned[1]}
        values = [found] if returned[0] == "single" else [*found]
        return {spec["name"]: value for spec, value in zip(outputs, values)}  # noqa: B905 - Keras checks it

    if _takes_other_rows(call, inputs):
        inputs, outputs = (
            [{**spec, "shape": ["batch", *spec["shape"][1:]]} for spec in side] for side in (inputs, outputs)
        )
    structure = {"inputs": given[0], "outputs": returned[0]}
    direct = lambda value: model(value, training=False)  # noqa: E731 - the call as its author makes it
    return Model(adopt(artifact, inputs), outputs, call, direct, arrange, structure, model, variables)


def _load(path: Path) -> Any:
    import keras

    if not zipfile.is_zipfile(path):
        raise ValueError("the file is not a Keras archive, or was cut short")
    try:
        return keras.models.load_model(path, compile=False, safe_mode=True)
    except (ValueError, TypeError, AttributeError, ImportError) as error:
        message = " ".join(str(error).split())
        if "safe_mode" in message or "unsafe" in message.lower():
            raise UnsuitedError(f"it holds a Lambda layer, which is code: {_EXPORT}") from error
        if "locate class" in message or "custom" in message.lower():
            raise UnsuitedError(f"it needs a class of its author's, so {_EXPORT}: {message[:200]}") from error
        raise


def _read_side(model: Any, side: str) -> tuple[str, list[tuple[str, Any]]]:
    """Return the structure of a model's inputs or outputs, and their tensors by unique names.

    A Sequential has only lists of tensors: a structure is a property of layers that were called.
    """
    import keras

    tensors = getattr(model, f"{side}s")
    structure = (
        getattr(model, side)
        if not isinstance(model, keras.Sequential)
        else tensors[0]
        if len(tensors) == 1
        else tensors
    )
    if isinstance(structure, dict):
        if any(not hasattr(value, "dtype") for value in structure.values()):
            raise UnsuitedError(f"its {side}s are nested")
        return "dict", [*structure.items()]
    listed = isinstance(structure, (list, tuple))
    if listed and any(not hasattr(value, "dtype") for value in structure):
        raise UnsuitedError(f"its {side}s are nested")
    names = [tensor.name for tensor in tensors] if side == "input" else _name_outputs(model)
    unique = [name if names.count(name) == 1 else f"{name}_{number}" for number, name in enumerate(names)]
    return ("list" if listed else "single"), [*zip(unique, tensors)]  # noqa: B905 - of one length


def _name_outputs(model: Any) -> list[str]:
    return [*(getattr(model, "output_names", None) or [model.layers[-1].name] * len(model.outputs))]


def _arrange(values: list[Any], given: tuple[str, list[tuple[str, Any]]], specs: list[Json]) -> Any:
    if given[0] == "dict":
        return {spec["name"]: value for spec, value in zip(specs, values)}  # noqa: B905 - of one length
    return values[0] if given[0] == "single" else values


def _takes_other_rows(call: Any, inputs: list[Json]) -> bool:
    """Return whether a model with a fixed number of rows accepts another: a Sequential has that of its first call."""
    sizes = {spec["shape"][0] if spec["shape"] else None for spec in inputs}
    if len(sizes) != 1 or not isinstance(rows := sizes.pop(), int):
        return False
    more = [[rows + 1, *(8 if isinstance(size, str) else size for size in spec["shape"][1:])] for spec in inputs]
    feeds = {spec["name"]: tf.zeros(shape, spec["dtype"]) for spec, shape in zip(inputs, more, strict=True)}
    try:
        return all(value.shape.rank and value.shape[0] == rows + 1 for value in call(feeds).values())
    except Exception:  # noqa: BLE001 - its layers may raise anything
        return False
