"""MLflow's tensor signatures, read from the JSON of a foreign ``MLmodel`` without importing MLflow."""

from __future__ import annotations

import json

import numpy as np

from kedro_hone.core.values.artifact import TensorSpec
from kedro_hone.core.values.base import Json


def read_signature(signature: Json) -> tuple[tuple[TensorSpec, ...], tuple[TensorSpec, ...]]:
    """Return the inputs and outputs of a ``signature`` entry, or of None.

    The first axis, when it is dynamic, is ``batch``; other dynamic axes get a name of their own. Unnamed tensors are
    ``input_0`` and ``output_0``: the file's own names, where a worker can read them, come before these. A side that is
    missing or not made of tensors (columns of a table) is empty.

    Raises:
        ValueError: The entry is malformed.
    """
    if not isinstance(signature, dict):
        return (), ()
    try:
        return _read_side(signature.get("inputs"), "input"), _read_side(signature.get("outputs"), "output")
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise ValueError(f"the signature cannot be read: {error!r}") from error


def _read_side(text: Json, word: str) -> tuple[TensorSpec, ...]:
    rows = json.loads(text) if isinstance(text, str) else (text or [])
    if any(row.get("type") != "tensor" for row in rows):
        return ()
    specs = []
    for index, row in enumerate(rows):
        name = row.get("name") or f"{word}_{index}"
        sizes = [int(size) for size in row["tensor-spec"]["shape"]]
        dynamic = ["batch", *(f"{name}_{axis}" for axis in range(1, len(sizes)))]
        shape = tuple(size if size >= 0 else axis for size, axis in zip(sizes, dynamic, strict=False))
        specs.append(TensorSpec(name=name, dtype=np.dtype(row["tensor-spec"]["dtype"]).name, shape=shape))
    return tuple(specs)
