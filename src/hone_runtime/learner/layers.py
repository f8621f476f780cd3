"""The call of a Keras layer around a session's ``run``: arrays in the source's structures."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import numpy as np

from hone_runtime.interfaces.tensors import Run, make_shape_check
from hone_runtime.values.artifact import Artifact, TensorSpec

Array = np.ndarray[Any, Any]

_KINDS: Final = ("single", "list", "dict")


def make_layer_call(run: Run, artifact: Artifact) -> Callable[..., Any]:
    """Return the call of a layer: arrays in and out, in the source's structures; for tensors it returns tensors.

    Numbers are cast to the input's type, and a trailing axis of size 1 is added or dropped, as in Keras.

    Raises:
        ValueError: The artifact does not contain the source's structures.
    """
    given, returned = (_read_kind(artifact, side) for side in ("inputs", "outputs"))
    specs, check = artifact.inputs, make_shape_check(artifact.inputs)
    names = [spec.name for spec in artifact.outputs]

    def call(inputs: Any, training: bool | None = None, mask: Any = None) -> Any:  # noqa: FBT001 - Keras's signature
        if training:
            raise TypeError("training=True is for the source: a winner computes as in inference")
        if mask is not None:
            raise TypeError("mask is for the source: a winner computes the mask that its inputs have")
        values = _list_values(inputs, given, specs)
        feeds = {spec.name: _fit(spec, value) for spec, value in zip(specs, values, strict=True)}
        check(feeds)
        found = run(feeds)
        wrap = _find_wrap(values)
        if returned == "dict":
            return {name: wrap(found[name]) for name in names}
        listed = [wrap(found[name]) for name in names]
        return listed if returned == "list" else listed[0]

    return call


def _read_kind(artifact: Artifact, side: str) -> str:
    notes = artifact.metadata.get("keras")
    kind = notes.get(side) if isinstance(notes, dict) else None
    if kind not in _KINDS or (kind == "single" and len(getattr(artifact, side)) != 1):
        raise ValueError(f"its structure of {side} is {kind!r:.80}")
    return str(kind)


def _list_values(inputs: Any, kind: str, specs: Sequence[TensorSpec]) -> list[Any]:
    """Return the value of each input, in the model's order; a dictionary works for every model with named inputs.

    Raises:
        TypeError: The inputs have another structure.
        ValueError: An input is missing, or there is one too many.
    """
    names = [spec.name for spec in specs]
    if isinstance(inputs, Mapping):
        if inputs.keys() - set(names) or set(names) - inputs.keys():
            raise ValueError(f"the model takes {', '.join(names)}, and was given {', '.join(map(str, inputs))}")
        return [inputs[name] for name in names]
    if kind == "dict":
        raise TypeError(f"the model takes a dictionary of {', '.join(names)}, and not {type(inputs).__name__}")
    if len(specs) == 1:
        nested = isinstance(inputs, list | tuple) and len(inputs) == 1 and hasattr(inputs[0], "shape")
        return [inputs[0] if nested else inputs]
    if not isinstance(inputs, list | tuple) or len(inputs) != len(specs):
        raise TypeError(f"the model takes a list of {', '.join(names)}")
    return [*inputs]


def _fit(spec: TensorSpec, value: Any) -> Array:
    array = np.asarray(value.numpy() if hasattr(value, "numpy") else value)
    if array.dtype.kind not in "biuf":
        raise TypeError(f"{spec.name} takes numbers, and was given {array.dtype}")
    if array.ndim == len(spec.shape) - 1 and spec.shape[-1] == 1:
        array = array[..., np.newaxis]
    elif array.ndim == len(spec.shape) + 1 and array.shape[-1] == 1:
        array = array[..., 0]
    return array.astype(np.dtype(spec.dtype), copy=False)


def _find_wrap(values: Sequence[Any]) -> Callable[[Array], Any]:
    """Return a function that converts arrays to TensorFlow tensors if the caller passed some; else the identity."""
    if not any(type(value).__module__.partition(".")[0] == "tensorflow" for value in values):
        return lambda array: array
    convert: Callable[[Array], Any] = sys.modules["tensorflow"].convert_to_tensor
    return convert
