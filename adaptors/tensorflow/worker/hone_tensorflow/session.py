"""Run Keras models and SavedModels as their authors do, and XLA programs compiled from them."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import tensorflow as tf

from hone_runtime.sessions import compiled
from hone_runtime.worker.imports import require_cpu
from hone_runtime.worker.refusal import UnsuitedError

from . import models, source_models

Json = dict[str, Any]
Array = np.ndarray[Any, Any]


class Session:
    """A source model, called as its author calls it."""

    has_cache = False

    def __init__(self, job: Json) -> None:
        """Open a model.

        Raises:
            ValueError: It is refused, is for another device, or TensorFlow runs with another number of threads.
        """
        require_cpu(job)
        models.limit_threads(int(job["threads"]))
        try:
            self._model = source_models.open_model(job)
        except UnsuitedError as error:
            raise ValueError(str(error)) from error

    def run(self, feeds: dict[str, Array]) -> dict[str, Array]:
        """Return every output by name, for inputs by name."""
        found = self._model.call({name: tf.constant(array) for name, array in feeds.items()})
        return {name: value.numpy() for name, value in found.items()}

    def prepare(self, feeds: dict[str, Array]) -> Callable[[], Any]:
        """Return the call that is timed: the author's own, on tensors in the author's form."""
        given = self._model.arrange({name: tf.constant(array) for name, array in feeds.items()})
        return partial(self._model.direct, given)


def open_compiled(job: Json) -> Any:
    """Return a session of a SavedModel with a function for each shape, each compiled here.

    Raises:
        ValueError: It is for another device or has no shapes, or TensorFlow runs with another number of threads.
    """
    require_cpu(job)
    models.limit_threads(int(job["threads"]))
    artifact = job["input"]
    index = compiled.read_index(artifact["path"])
    loaded = tf.saved_model.load(artifact["path"])

    def open_one(shape: Json, key: tuple[tuple[int, ...], ...]) -> CompiledSession:
        call = loaded.signatures[name_signature(shape)]
        given = zip(key, index["inputs"], strict=True)
        call(**{spec["name"]: tf.zeros(sizes, spec["dtype"]) for sizes, spec in given})
        return CompiledSession(call, index, loaded)

    return compiled.open_shapes(artifact, index["inputs"], open_one)


class CompiledSession:
    """XLA's program for one shape."""

    has_cache = False

    def __init__(self, call: Callable[..., Json], index: Json, loaded: Any) -> None:
        """Store a function, the specs of the model, and the object that owns its variables."""
        self._call, self._loaded = call, loaded
        self._inputs, self._outputs = ([spec["name"] for spec in index[side]] for side in compiled.SIDES)

    def run(self, feeds: dict[str, Array]) -> dict[str, Array]:
        """Return every output by name, for inputs by name."""
        found = self._call(**{name: tf.constant(feeds[name]) for name in self._inputs})
        return {name: found[name].numpy() for name in self._outputs}


def name_signature(shape: Json) -> str:
    """Return the name of a shape's function, unique for each shape."""
    return "shape_" + re.sub(r"[^A-Za-z0-9]", lambda found: f"_{ord(found[0]):x}_", str(shape["name"]))
