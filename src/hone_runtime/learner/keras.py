"""A winner whose source was a Keras model, called like one: ``model(x)`` and ``model.predict(x)``."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np

from hone_runtime.learner.model import Learner
from hone_runtime.values.artifact import Artifact

Array = np.ndarray[Any, Any]

_BATCH: Final = 32
"""Batch size of ``predict``, as in Keras."""


class KerasLearner(Learner):
    """A winner that is called like its source model of Keras; it needs neither Keras nor TensorFlow."""

    def __init__(self, artifact: Artifact, files: Path, *, threads: int | None = None) -> None:
        """Open a sealed artifact as ``Learner`` does."""
        super().__init__(artifact, files, interface="keras", threads=threads)

    def predict(
        self,
        x: Any,
        batch_size: int | None = None,
        verbose: str | int = "auto",  # noqa: ARG002 - Keras's signature; there is no progress bar
        steps: int | None = None,
        callbacks: None = None,
    ) -> Any:
        """Return the outputs for all rows as arrays, in the source's output structure.

        Args:
            x: Arrays, tensors, lists or dictionaries of them; or batches of them, such as a ``tf.data.Dataset``. If a
                batch is a tuple, its first element is used.
            batch_size: Rows per call; 32 by default. Batches are used unchanged.
            verbose: As in Keras; nothing is shown.
            steps: The largest number of batches.
            callbacks: Must be empty: callbacks are not supported.

        Raises:
            TypeError, ValueError: The inputs are missing, or do not fit the model.
        """
        if callbacks:
            raise TypeError("callbacks are for the source: a winner calls none")
        parts = []
        for number, batch in enumerate(_list_batches(x, batch_size or _BATCH)):
            if steps is not None and number >= steps:
                break
            parts.append(_to_arrays(self(batch)))
        if not parts:
            raise ValueError("there are no rows to predict")
        return _join(parts)


def _list_batches(x: Any, size: int) -> Iterator[Any]:
    """Yield the rows of arrays in batches, or the batches of an iterable."""
    if isinstance(x, Mapping):
        arrays = {name: _to_array(value) for name, value in x.items()}
        for start in range(0, max(map(len, arrays.values()), default=0), size):
            yield {name: array[start : start + size] for name, array in arrays.items()}
    elif isinstance(x, list | tuple) and x and all(hasattr(one, "shape") for one in x):
        listed = [_to_array(one) for one in x]
        for start in range(0, max(map(len, listed)), size):
            yield [array[start : start + size] for array in listed]
    elif hasattr(x, "shape") or isinstance(x, list | tuple):
        array = _to_array(x)
        for start in range(0, len(array), size):
            yield array[start : start + size]
    else:
        for batch in x:
            yield batch[0] if isinstance(batch, tuple) else batch


def _to_array(value: Any) -> Array:
    return np.asarray(value.numpy() if hasattr(value, "numpy") else value)


def _to_arrays(found: Any) -> Any:
    if isinstance(found, dict):
        return {name: _to_array(value) for name, value in found.items()}
    return [_to_array(value) for value in found] if isinstance(found, list) else _to_array(found)


def _join(parts: Sequence[Any]) -> Any:
    first = parts[0]
    if isinstance(first, dict):
        return {name: np.concatenate([part[name] for part in parts]) for name in first}
    if isinstance(first, list):
        return [np.concatenate(arrays) for arrays in zip(*parts, strict=True)]
    return np.concatenate(parts)
