"""Open models, each as a function from tensors by name to tensors by name, with their specs."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

os.environ.setdefault("KERAS_BACKEND", "tensorflow")
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")  # hides its messages on instructions and oneDNN

import tensorflow as tf

from hone_runtime.sessions import compiled
from hone_runtime.worker.refusal import UnsuitedError

Json = dict[str, Any]
Tensors = dict[str, Any]

SEED = "seed_generator_state"
"""The name of the variables in which Keras counts the random draws of its noise layers."""


@dataclass(frozen=True)
class Model:
    """An open model.

    Attributes:
        inputs: The specs of its inputs, in the author's order; ``outputs`` are those of its outputs.
        call: From tensors by name to tensors by name; it can be traced.
        direct: The author's own call, on the result of ``arrange``.
        arrange: Converts tensors by name to the structure that the author's call accepts.
        structure: For the learner: whether inputs and outputs are ``single``, a ``list`` or a ``dict``; None for a
            SavedModel, whose signature uses names.
        kept: The object that owns the variables, which must stay alive.
        variables: The TensorFlow variables that its call uses.
    """

    inputs: list[Json]
    outputs: list[Json]
    call: Callable[[Tensors], Tensors]
    direct: Callable[[Any], Any]
    arrange: Callable[[Tensors], Any]
    structure: Json | None
    kept: Any
    variables: tuple[Any, ...] = ()


def limit_threads(threads: int) -> None:
    """Set TensorFlow's number of threads.

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


def specify(name: str, tensor: Any) -> Json:
    """Return the spec of a tensor; its first axis, if dynamic, is ``batch``.

    Raises:
        UnsuitedError: It is text, sparse or ragged, or its rank is unknown.
    """
    shape, dtype = tensor.shape, tf.as_dtype(tensor.dtype)
    if dtype == tf.string:
        raise UnsuitedError(
            f"{name} is text, which its conversions do not take: export it without the layer that reads it"
        )
    for kind, spec in (("ragged", tf.RaggedTensorSpec), ("sparse", tf.SparseTensorSpec)):
        if isinstance(tensor, spec) or getattr(tensor, kind, False):
            raise UnsuitedError(f"{name} is {kind}, which its conversions do not take: export it with dense tensors")
    if not dtype.is_numpy_compatible or dtype in {tf.resource, tf.variant}:
        raise UnsuitedError(f"{name} is {dtype.name}, and no tensor of numbers")
    if getattr(shape, "rank", 0) is None:
        raise UnsuitedError(f"{name} has any number of dimensions")
    names = ["batch", *(f"{name}_{axis}" for axis in range(1, len(shape)))]
    sizes = [size if size is not None else axis for size, axis in zip(shape, names)]  # noqa: B905 - of one length
    return {"name": name, "dtype": dtype.as_numpy_dtype().dtype.name, "shape": sizes}


def adopt(artifact: Json, own: list[Json]) -> list[Json]:
    """Return the inputs, with the recipe's names of dynamic dimensions."""
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


def reseed(variables: Iterable[Any], seed: int) -> None:
    """Set the states of Keras's generators from a seed: as saved, each process would draw the same numbers."""
    states = [one for one in variables if SEED in one.name and one.shape == (2,)]
    for number, state in enumerate(states):
        state.assign([seed, number])


def trace(model: Model, sizes: Json | None = None, narrowed: Mapping[str, Any] = MappingProxyType({})) -> Any:
    """Return a model as a concrete function of positional tensors.

    Args:
        model: The model.
        sizes: Sizes of the dynamic dimensions; None to leave them dynamic.
        narrowed: Types that the function's inputs and outputs have as another type; within the model they are
            unchanged.
    """
    known = sizes or {}
    returned = [
        (spec["name"], narrowed.get(spec["dtype"], spec["dtype"]), [known.get(dim, dim) for dim in spec["shape"]])
        for spec in model.outputs
    ]
    fixed = None if sizes is None else compiled.find_key(model.inputs, sizes)

    def call(*tensors: Any) -> tuple[Any, ...]:
        given = zip(model.inputs, tensors, strict=True)
        found = model.call({spec["name"]: tf.cast(tensor, spec["dtype"]) for spec, tensor in given})
        return tuple(_shape(tf.identity(tf.cast(found[name], dtype)), shape) for name, dtype, shape in returned)

    specs = [
        tf.TensorSpec(
            fixed[number] if fixed else [None if isinstance(size, str) else size for size in spec["shape"]],
            narrowed.get(spec["dtype"], spec["dtype"]),
            name=f"in_{number}",
        )
        for number, spec in enumerate(model.inputs)
    ]
    return tf.function(call, autograph=False).get_concrete_function(*specs)


def _shape(tensor: Any, shape: list[Any]) -> Any:
    """Set the static sizes of a tensor if they are known but missing in its graph, for example in one with a loop."""
    if tensor.shape.is_fully_defined() or any(isinstance(size, str) for size in shape):
        return tensor
    return tf.reshape(tensor, shape)
