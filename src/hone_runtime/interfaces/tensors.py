"""The interface of a PyTorch module around a session's ``run``: tensors in and out.

It wraps models that take microseconds: everything that can be decided once is decided when the function is made, and
a single tensor takes the shortest path. Workers import it, to time the call that users make. So it
imports nothing of kedro-hone but the module of routes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import numpy as np

from hone_runtime.sessions.routes import Router

if TYPE_CHECKING:
    from hone_runtime.sessions.routes import Key
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
    names = [spec.name for spec in artifact.inputs]
    lower, raise_outputs = _make_lowering(artifact, torch), _make_raising(artifact, torch.from_numpy)
    check_shapes = make_shape_check(artifact.inputs)

    def call(*args: Any, **kwargs: Any) -> Any:
        feeds = {name: lower(name, value) for name, value in bind(names, args, kwargs).items()}
        check_shapes(feeds)
        return raise_outputs(run(feeds))

    single = len(names) == len(artifact.outputs) == 1 and not artifact.metadata.get("structure")
    return _make_short_call(call, run, artifact, torch) if single else call


def _make_short_call(call: Callable[..., Any], run: Run, artifact: Artifact, torch: Any) -> Callable[..., Any]:
    """Return a function that serves a single plain tensor, for a model with one output, and passes on other calls.

    It is one function, since after a model has displaced the caches, each further one takes about a microsecond.
    """
    tensor_type, from_numpy = torch.Tensor, torch.from_numpy
    (name,), (output,) = ([spec.name for spec in side] for side in (artifact.inputs, artifact.outputs))
    dtype = find_dtype(artifact.inputs[0].dtype)
    routes, add_route = make_routes(run, artifact.inputs)

    def call_shortly(*args: Any, **kwargs: Any) -> Any:
        if len(args) != 1 or kwargs or type(value := args[0]) is not tensor_type:
            return call(*args, **kwargs)
        try:
            array = value.numpy()
        except (RuntimeError, TypeError):  # such as one that requires a gradient, or is on another device
            return call(value)
        if array.dtype is not dtype or not array.flags.c_contiguous:  # not every runtime supports strides
            return call(value)
        served = routes.get((array.shape,)) or add_route((array.shape,))
        found = served({name: array})[output]
        return from_numpy(found if found.flags.writeable else found.copy())

    return call_shortly


def _make_lowering(artifact: Artifact, torch: Any) -> Callable[[str, Any], np.ndarray[Any, Any]]:
    """Return a function that converts a tensor into the array of an input."""
    tensor_type = torch.Tensor
    dtypes = {spec.name: getattr(torch, spec.dtype) for spec in artifact.inputs}

    def lower(name: str, value: Any) -> np.ndarray[Any, Any]:
        if not isinstance(value, tensor_type):
            raise TypeError(f"{name} is a {type(value).__name__}; the model takes torch tensors")
        if value.dtype is not dtypes[name]:
            raise explain_dtype(name, value.dtype, dtypes[name])
        if value.requires_grad:
            value = value.detach()
        if not value.is_contiguous():
            value = value.contiguous()
        array: np.ndarray[Any, Any] = value.numpy()
        return array

    return lower


def _make_raising(artifact: Artifact, from_numpy: Callable[[np.ndarray[Any, Any]], Any]) -> Callable[[Arrays], Any]:
    """Return a function that converts a session's outputs into the source's result."""

    def lift(array: np.ndarray[Any, Any]) -> Any:
        return from_numpy(array if array.flags.writeable else array.copy())

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


def make_routes(run: Run, specs: Sequence[TensorSpec]) -> tuple[dict[Key, Run], Callable[[Key], Run]]:
    """Return the functions that serve known shapes of the inputs, and a function that checks shapes and adds one.

    They are those of the session whose ``run`` is given, or ``run`` itself. The second function raises ``ValueError``
    as in ``match_shapes``.
    """
    session = getattr(run, "__self__", None)
    router = session if isinstance(session, Router) and run == session.run else None  # type: ignore[attr-defined]
    routes: dict[Key, Run] = {} if router is None else router.routes

    def add(key: Key) -> Run:
        match_shapes(specs, key)
        found: Run = run if router is None else router.find_run(key)
        if len(routes) < _MOST_SHAPES:
            routes[key] = found
        return found

    return routes, add


def find_dtype(name: str) -> np.dtype[Any] | None:
    """Return NumPy's type of this name; None for others, such as bfloat16, which a runtime may accept in its form."""
    try:
        return np.dtype(name)
    except TypeError:
        return None


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
