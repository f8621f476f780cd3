"""Run Keras models and SavedModels as their authors do, and what XLA compiles of them."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import tensorflow as tf
from hone_loading import load_part, require_cpu

from . import index, models

shapes = load_part("shapes")

Json = dict[str, Any]
Array = np.ndarray[Any, Any]


class Session:
    """A source model, called as its author calls it."""

    has_cache = False

    def __init__(self, job: Json) -> None:
        """Open a model.

        Raises:
            ValueError: It cannot be taken, is for another device, or TensorFlow runs with other threads.
        """
        require_cpu(job)
        models.limit_threads(int(job["threads"]))
        try:
            self._model = models.open_model(job["input"])
        except models.Unsuited as error:
            raise ValueError(str(error)) from error

    def run(self, feeds: dict[str, Array]) -> dict[str, Array]:
        """Return every output by name, for inputs by name."""
        found = self._model.call({name: tf.constant(array) for name, array in feeds.items()})
        return {name: value.numpy() for name, value in found.items()}

    def prepare(self, feeds: dict[str, Array]) -> Callable[[], Any]:
        """Return the call as it is timed: the author's own, on tensors as the author has them."""
        given = self._model.arrange({name: tf.constant(array) for name, array in feeds.items()})
        return partial(self._model.direct, given)


class CompiledSession:
    """A program of XLA for each shape, compiled when the session is opened."""

    has_cache = False

    def __init__(self, job: Json) -> None:
        """Open a SavedModel, and compile its functions.

        Raises:
            ValueError: It is for another device, or TensorFlow runs with other threads, or it has no shapes.
        """
        require_cpu(job)
        models.limit_threads(int(job["threads"]))
        artifact = job["input"]
        specs = index.read(artifact["path"])
        self._names = [spec["name"] for spec in specs["inputs"]]
        self._outputs = [spec["name"] for spec in specs["outputs"]]
        self._loaded = tf.saved_model.load(artifact["path"])  # owns the variables
        self._calls = {}
        for shape in artifact["static_shapes"]:
            key = find_key(specs["inputs"], shape["sizes"])
            call = self._loaded.signatures[index.name_signature(shape)]
            call(**{n: tf.zeros(s, d["dtype"]) for n, s, d in zip(self._names, key, specs["inputs"], strict=True)})
            self._calls[key] = call
        if not self._calls:
            raise ValueError("the model says no shapes that it was compiled for")

    def run(self, feeds: dict[str, Array]) -> dict[str, Array]:
        """Return every output by name, for inputs by name, of one of the shapes."""
        key = tuple([feeds[name].shape for name in self._names])
        call = self._calls.get(key)
        if call is None:
            raise ValueError(f"compiled for the shapes {sorted(self._calls)} and fed {key}")
        found = call(**{name: tf.constant(feeds[name]) for name in self._names})
        return {name: found[name].numpy() for name in self._outputs}


def find_key(specs: list[Json], sizes: Json) -> tuple[tuple[int, ...], ...]:
    """Return the shapes of the inputs at some sizes of their dynamic dimensions.

    Raises:
        ValueError: The sizes are no sizes, or one is missing.
    """
    if any(isinstance(dim, str) for spec in specs for dim in spec["shape"]):
        found: tuple[tuple[int, ...], ...] = shapes.require_shapes(specs, sizes)
        return found
    return tuple(tuple(spec["shape"]) for spec in specs)
