"""The two interfaces: tensors in and out, as a PyTorch module has it; arrays in and out, as an ONNX model has it.

They are called around models that take microseconds: what can be decided once is decided when they are made, and a
single tensor takes the shortest way. Workers load this file by its path, to time what users call, so it
imports nothing of ours.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from kedro_hone.core.values.artifact import Artifact, TensorSpec

Arrays = dict[str, np.ndarray[Any, Any]]
Run = Callable[[Arrays], Arrays]
TEXT = np.dtype(str)
_MOST_SHAPES = 4096  # of inputs that are remembered; beyond these, shapes are compared at each call


def find_interface(name: str) -> Callable[[Run, Artifact], Callable[..., Any]]:
    """Return what makes a function that is called as the source model was, of a session's ``run`` and its artifact.

    Raises:
        ValueError: There is no such interface.
    """
    if name not in INTERFACES:
        raise ValueError(f"the interface {name!r} is neither {' nor '.join(repr(known) for known in INTERFACES)}")
    return INTERFACES[name]


def make_arrays_interface(run: Run, artifact: Artifact) -> Callable[..., Any]:
    """Return a function on arrays.

    A dictionary gives a dictionary. Arrays, in the inputs' order or by their names, give the output's array when there
    is one output, and a dictionary when there are several.
    """
    names = [spec.name for spec in artifact.inputs]
    types = {spec.name: _find_dtype(spec.dtype) for spec in artifact.inputs}
    single = artifact.outputs[0].name if len(artifact.outputs) == 1 else None
    first, first_type = names[0], types[names[0]]
    only = len(names) == 1 and first_type != TEXT
    check_shapes = make_shape_check(artifact.inputs)

    def call(*args: Any, **kwargs: Any) -> Any:
        if only and not kwargs and len(args) == 1:
            value = args[0]
            if isinstance(value, np.ndarray):
                if first_type is not None and value.dtype != first_type:
                    raise _explain_dtype(first, value.dtype, first_type)
                feeds = {first: value}
                check_shapes(feeds)
                outputs = run(feeds)
                return outputs if single is None else outputs[single]
        if len(args) == 1 and not kwargs and isinstance(args[0], dict):
            feeds = {name: _check_array(name, value, types) for name, value in args[0].items()}
            check_shapes(feeds)
            return run(feeds)
        feeds = {name: _check_array(name, value, types) for name, value in bind(names, args, kwargs).items()}
        check_shapes(feeds)
        outputs = run(feeds)
        return outputs if single is None else outputs[single]

    return call


def make_tensors_interface(run: Run, artifact: Artifact) -> Callable[..., Any]:
    """Return a function of tensors, in the inputs' order or by their names.

    It gives what the source gave: a tensor, or a tuple, list or dictionary of them. Where the source was no PyTorch
    model: a tensor when there is one output, and a tuple when there are several. Tensors are on the CPU; the results
    have no gradient.

    Raises:
        ImportError: PyTorch is not installed.
    """
    torch = import_torch()
    names = [spec.name for spec in artifact.inputs]
    lower, raise_outputs = _make_lowering(torch, artifact), _make_raising(artifact, _make_lifting(torch))
    first, only = names[0], len(names) == 1
    check_shapes = make_shape_check(artifact.inputs)

    def call(*args: Any, **kwargs: Any) -> Any:
        if only and len(args) == 1 and not kwargs:
            feeds = {first: lower(first, args[0])}
        else:
            feeds = {name: lower(name, value) for name, value in bind(names, args, kwargs).items()}
        check_shapes(feeds)
        return raise_outputs(run(feeds))

    return call


def _make_raising(artifact: Artifact, lift: Callable[[np.ndarray[Any, Any]], Any]) -> Callable[[Arrays], Any]:
    """Return what makes the source's own result of a session's outputs."""
    structure = artifact.metadata.get("structure") or {}
    kind, items = structure.get("kind"), structure.get("items") or [spec.name for spec in artifact.outputs]
    if kind is None and len(items) == 1:
        single = items[0]
        return lambda outputs: lift(outputs[single])
    if kind == "dict":
        return lambda outputs: {key: None if name is None else lift(outputs[name]) for key, name in items}
    if kind == "list":
        return lambda outputs: [lift(outputs[name]) for name in items]
    return lambda outputs: tuple([lift(outputs[name]) for name in items])


def import_torch() -> Any:
    """Return PyTorch; where it is not installed, raise an ``ImportError`` that says what to do."""
    try:
        import torch
    except ImportError as error:
        raise ImportError(
            "The source was a PyTorch model, so this one takes tensors, and PyTorch is not installed. Install it: "
            "pip install 'kedro-hone[torch]', or load the model with interface=\"onnx\" to use numpy arrays.",
            name=error.name,
        ) from error
    return torch


def _make_lowering(torch: Any, artifact: Artifact) -> Callable[[str, Any], np.ndarray[Any, Any]]:
    """Return what makes an array of a tensor, on the same memory where that is possible."""
    dtypes = {spec.name: getattr(torch, spec.dtype) for spec in artifact.inputs}
    tensor_type = torch.Tensor

    def lower(name: str, value: Any) -> np.ndarray[Any, Any]:
        if not isinstance(value, tensor_type):
            raise TypeError(f"{name} is a {type(value).__name__}; the model takes torch tensors")
        if value.dtype is not dtypes[name]:
            raise _explain_dtype(name, value.dtype, dtypes[name])
        if value.requires_grad:
            value = value.detach()
        if not value.is_contiguous():  # not every runtime looks at strides
            value = value.contiguous()
        array: np.ndarray[Any, Any] = value.numpy()
        return array

    return lower


def _make_lifting(torch: Any) -> Callable[[np.ndarray[Any, Any]], Any]:
    """Return what makes a tensor of an array, on the same memory where that may be written."""
    from_numpy = torch.from_numpy

    def lift(array: np.ndarray[Any, Any]) -> Any:
        return from_numpy(array if array.flags.writeable else array.copy())

    return lift


def bind(names: list[str], args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any]:
    """Return every input's value by name, given as a function's arguments are: in order, by name, or both.

    Raises:
        TypeError: An input has no value or two, or there is no such input.
    """
    if len(args) > len(names):
        raise TypeError(f"the model takes {len(names)} inputs ({', '.join(names)}); {len(args)} were given")
    values = dict(zip(names, args, strict=False))
    if twice := values.keys() & kwargs.keys():
        raise TypeError(f"{min(twice)} was given twice")
    values |= kwargs
    if odd := values.keys() ^ set(names):
        name = min(odd)
        raise TypeError(f"{name} was not given" if name in names else f"the model has no input {name}")
    return values


def make_shape_check(specs: Sequence[TensorSpec]) -> Callable[[Arrays], None]:
    """Return a function that compares the shapes of all inputs with the model's; it takes under a microsecond.

    Shapes that were found right are remembered. The function raises ``TypeError`` where an input is missing, and
    ``ValueError`` where a shape has another number of dimensions, another size in a fixed one, or two sizes for one
    name.
    """
    names = [spec.name for spec in specs]
    known: set[tuple[tuple[int, ...], ...]] = set()

    def check(feeds: Arrays) -> None:
        try:
            shapes = tuple([feeds[name].shape for name in names])
        except KeyError as missing:
            raise TypeError(f"{missing.args[0]} was not given") from None
        if shapes not in known:
            match_shapes(specs, shapes)
            if len(known) < _MOST_SHAPES:
                known.add(shapes)

    return check


def match_shapes(specs: Sequence[TensorSpec], shapes: Sequence[tuple[int, ...]]) -> dict[str, int]:
    """Return the size of every dynamic dimension; ``ValueError`` where a shape is not one that the model takes."""
    sizes: dict[str, int] = {}
    for spec, shape in zip(specs, shapes, strict=True):
        problem = f"{spec.name} has the shape {_write_shape(shape)}; the model takes {_write_shape(spec.shape)}"
        if len(shape) != len(spec.shape):
            raise ValueError(problem)
        for dim, size in zip(spec.shape, shape, strict=True):
            due = sizes.setdefault(dim, size) if isinstance(dim, str) else dim
            if size != due:
                raise ValueError(f"{problem}, and {dim} is {due}" if isinstance(dim, str) else problem)
    return sizes


def _write_shape(shape: Sequence[int | str]) -> str:
    return f"({', '.join(map(str, shape))})"


def _check_array(name: str, value: Any, types: dict[str, np.dtype[Any] | None]) -> np.ndarray[Any, Any]:
    if name not in types:
        raise TypeError(f"the model has no input {name}")
    expected = types[name]
    if expected == TEXT:
        return check_text(name, value)
    array = np.asarray(value, None if isinstance(value, np.ndarray) else expected)
    if expected is not None and array.dtype != expected:
        raise _explain_dtype(name, array.dtype, expected)
    return array


def check_text(name: str, value: Any) -> np.ndarray[Any, Any]:
    """Return text as an array; runtimes would take numbers and missing values for text (``None`` for ``"None"``).

    Args:
        name: The input's name.
        value: An array of numpy's own text, or of objects; or a list.

    Raises:
        TypeError: Something in it is no text.
    """
    array = value if isinstance(value, np.ndarray) else np.asarray(value, object)
    if array.dtype.kind not in "UO":
        raise _explain_dtype(name, array.dtype, "text")
    strange = [item for item in array.flat if not isinstance(item, str)] if array.dtype.kind == "O" else []
    if strange:
        raise TypeError(f"{name} holds {strange[0]!r}; the model takes text")
    return array


def _find_dtype(name: str) -> np.dtype[Any] | None:
    try:
        return np.dtype(name)
    except TypeError:  # such as bfloat16, which the runtime may take in some form of its own
        return None


def _explain_dtype(name: str, given: Any, expected: Any) -> TypeError:
    return TypeError(f"{name} is {given}; the model takes {expected}")


INTERFACES: Mapping[str, Callable[[Run, Artifact], Callable[..., Any]]] = MappingProxyType(
    {"pytorch": make_tensors_interface, "onnx": make_arrays_interface}
)
"""The ways to call a model, by the name in an artifact's ``interface``."""
