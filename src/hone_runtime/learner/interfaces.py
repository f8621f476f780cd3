"""The interfaces: arrays (ONNX), tensors (PyTorch, Transformers), rows (scikit-learn), and Keras's own."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, Final

import numpy as np

from hone_runtime.interfaces.pretrained import make_pretrained_interface
from hone_runtime.interfaces.tables import make_predict
from hone_runtime.interfaces.tensors import (
    Run,
    bind,
    explain_dtype,
    find_dtype,
    make_routes,
    make_shape_check,
    make_tensors_interface,
)
from hone_runtime.learner.layers import make_layer_call
from hone_runtime.values.artifact import Artifact

_TEXT: Final = np.dtype(str)


def make_arrays_interface(run: Run, artifact: Artifact) -> Callable[..., Any]:
    """Return a function on arrays.

    For a dictionary, the function returns a dictionary. For arrays, in the inputs' order or by name, it returns the
    array of a single output, or a dictionary of several.
    """
    names = [spec.name for spec in artifact.inputs]
    types = {spec.name: find_dtype(spec.dtype) for spec in artifact.inputs}
    single = artifact.outputs[0].name if len(artifact.outputs) == 1 else None
    first, first_type, only = names[0], types[names[0]], len(names) == 1
    check_shapes, (routes, add_route) = make_shape_check(artifact.inputs), make_routes(run, artifact.inputs)

    def call(*args: Any, **kwargs: Any) -> Any:
        lone: Any = args[0] if len(args) == 1 and not kwargs else None
        named = isinstance(lone, dict)
        value = lone.get(first) if named and len(lone) == 1 else lone
        if only and type(value) is np.ndarray and value.dtype == first_type:  # the model may take only microseconds
            served = routes.get((value.shape,)) or add_route((value.shape,))
            outputs = served({first: value})
            return outputs if single is None or named else outputs[single]
        given = lone if named else bind(names, args, kwargs)
        feeds = {name: _check_array(name, value, types) for name, value in given.items()}
        check_shapes(feeds)
        outputs = run(feeds)
        return outputs if single is None or named else outputs[single]

    return call


def _check_array(name: str, value: Any, types: dict[str, np.dtype[Any] | None]) -> np.ndarray[Any, Any]:
    if name not in types:
        raise TypeError(f"the model has no input {name}")
    expected = types[name]
    if expected == _TEXT:
        return check_text(name, value)
    array = np.asarray(value, None if isinstance(value, np.ndarray) else expected)
    if expected is not None and array.dtype != expected:
        raise explain_dtype(name, array.dtype, expected)
    return array


def check_text(name: str, value: Any) -> np.ndarray[Any, Any]:
    """Return text as an array, of NumPy strings or of objects; the value may be a list.

    Without this check, runtimes would convert numbers and missing values to text (``None`` to ``"None"``).

    Raises:
        TypeError: An element is not text.
    """
    array = value if isinstance(value, np.ndarray) else np.asarray(value, object)
    if array.dtype.kind not in "UO":
        raise explain_dtype(name, array.dtype, "text")
    strange = [item for item in array.flat if not isinstance(item, str)] if array.dtype.kind == "O" else []
    if strange:
        raise TypeError(f"{name} holds {strange[0]!r}; the model takes text")
    return array


INTERFACES: Final[Mapping[str, Callable[[Run, Artifact], Callable[..., Any]]]] = MappingProxyType(
    {
        "pytorch": make_tensors_interface,
        "onnx": make_arrays_interface,
        "transformers": make_pretrained_interface,
        "sklearn": make_predict,
        "keras": make_layer_call,
    }
)
"""Factories of functions that are called like the source model, by the artifact's ``interface``."""
