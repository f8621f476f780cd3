"""The interface of a PyTorch module around a session's ``run``: tensors in and out.

It wraps models that take microseconds: everything that can be decided once is decided when the function is made, and
a single tensor takes the shortest path. Workers import it, to time the call that users make. So it
imports nothing of kedro-hone.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from hone_runtime.values.artifact import Artifact, TensorSpec

Arrays = dict[str, np.ndarray[Any, Any]]
Run = Callable[[Arrays], Arrays]
_MOST_SHAPES = 4096  # number of input shapes that are cached; beyond these, shapes are compared at each call


def make_tensors_interface(run: Run, artifact: Artifact) -> Callable[..., Any]:
    """Return a function that takes tensors, in the inputs' order or by their names.

    It returns the source's structure: a tensor, or a tuple, list or dictionary of them. If the source was not a PyTorch
    model: a tensor for one output, and a tuple for several. Tensors are on the CPU, and share memory with the runtime's
    arrays if possible. The results have no gradient.

    Raises:
        ImportError: PyTorch is not installed.
    """
    torch = import_torch()
    tensor_type, from_numpy = torch.Tensor, torch.from_numpy
    names = [spec.name for spec in artifact.inputs]
    dtypes = {spec.name: getattr(torch, spec.dtype) for spec in artifact.inputs}
    first, only = names[0], len(names) == 1
    check_shapes = make_shape_check(artifact.inputs)

    def lower(name: str, value: Any) -> np.ndarray[Any, Any]:
        if not isinstance(value, tensor_type):
            raise TypeError(f"{name} is a {type(value).__name__}; the model takes torch tensors")
        if value.dtype is not dtypes[name]:
            raise explain_dtype(name, value.dtype, dtypes[name])
        if value.requires_grad:
            value = value.detach()
        if not value.is_contiguous():  # not every runtime supports strides
            value = value.contiguous()
        array: np.ndarray[Any, Any] = value.numpy()
        return array

    def lift(array: np.ndarray[Any, Any]) -> Any:
        return from_numpy(array if array.flags.writeable else array.copy())

    raise_outputs = _make_raising(artifact, lift)

    def call(*args: Any, **kwargs: Any) -> Any:
        if only and len(args) == 1 and not kwargs:
            feeds = {first: lower(first, args[0])}
        else:
            feeds = {name: lower(name, value) for name, value in bind(names, args, kwargs).items()}
        check_shapes(feeds)
        return raise_outputs(run(feeds))

    return call


def _make_raising(artifact: Artifact, lift: Callable[[np.ndarray[Any, Any]], Any]) -> Callable[[Arrays], Any]:
    """Return a function that converts a session's outputs into the source's result."""
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
    """Return PyTorch; if it is not installed, raise an ``ImportError`` that explains how to install it."""
    try:
        import torch
    except ImportError as error:
        raise ImportError(
            "The source was a PyTorch model, so this one takes tensors, and PyTorch is not installed. Install it: "
            "pip install 'kedro-hone[torch]', or load the model with interface=\"onnx\" to use numpy arrays.",
            name=error.name,
        ) from error
    return torch


def bind(names: list[str], args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any]:
    """Return every input's value by name, from positional and keyword arguments.

    Raises:
        TypeError: An input has no value or two values, or an argument is not an input.
    """
    if len(args) > len(names):
        raise TypeError(f"the model takes {len(names)} inputs ({', '.join(names)}); {len(args)} were given")
    values = dict(zip(names, args, strict=False))
    if twice := values.keys() & kwargs.keys():
        raise TypeError(f"{min(twice)} was given twice")
    values |= kwargs
    if odd := values.keys() - set(names):  # before missing inputs: a misspelt name causes both
        raise TypeError(f"the model has no input {min(odd)}; it takes {', '.join(names)}")
    if missing := set(names) - values.keys():
        raise TypeError(f"{min(missing)} was not given")
    return values


def make_shape_check(
    specs: Sequence[TensorSpec], limits: Mapping[str, int] = MappingProxyType({})
) -> Callable[[Arrays], None]:
    """Return a function that compares the shapes of all inputs with the model's; it takes under a microsecond.

    Shapes that passed are cached; ``limits`` are the largest sizes of dimensions. The function raises ``TypeError`` if
    an input is missing, and ``ValueError`` as in ``match_shapes``, or for a size beyond its limit.
    """
    names = [spec.name for spec in specs]
    known: set[tuple[tuple[int, ...], ...]] = set()

    def check(feeds: Arrays) -> None:
        try:
            shapes = tuple([feeds[name].shape for name in names])
        except KeyError as missing:
            raise TypeError(f"{missing.args[0]} was not given") from None
        if shapes not in known:
            sizes = match_shapes(specs, shapes)
            for dim, limit in limits.items():
                if sizes.get(dim, 0) > limit:
                    raise ValueError(f"{dim} is {sizes[dim]}, and the model takes {limit} at most")
            if len(known) < _MOST_SHAPES:
                known.add(shapes)

    return check


def match_shapes(specs: Sequence[TensorSpec], shapes: Sequence[tuple[int, ...]]) -> dict[str, int]:
    """Return the size of each named dimension, from the shapes of all inputs.

    Raises:
        ValueError: A shape has another number of dimensions or another fixed size, or a named dimension has two sizes.
    """
    sizes: dict[str, int] = {}
    for spec, shape in zip(specs, shapes, strict=True):
        given, taken = (f"({', '.join(map(str, one))})" for one in (shape, spec.shape))
        problem = f"{spec.name} has the shape {given}; the model takes {taken}"
        if len(shape) != len(spec.shape):
            raise ValueError(problem)
        for dim, size in zip(spec.shape, shape, strict=True):
            due = sizes.setdefault(dim, size) if isinstance(dim, str) else dim
            if size != due:
                raise ValueError(f"{problem}, and {dim} is {due}" if isinstance(dim, str) else problem)
    return sizes


def explain_dtype(name: str, given: Any, expected: Any) -> TypeError:
    """Return the error for an input of another type."""
    return TypeError(f"{name} is {given}; the model takes {expected}")
