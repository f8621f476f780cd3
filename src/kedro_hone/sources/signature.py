"""MLflow's tensor signatures, read from the JSON of a foreign ``MLmodel`` without importing MLflow."""

from __future__ import annotations

import json

import numpy as np

from kedro_hone.core.values.artifact import TensorSpec
from kedro_hone.core.values.base import Json


def read_signature(signature: Json) -> tuple[tuple[TensorSpec, ...], tuple[TensorSpec, ...]]:
    """Return the inputs and outputs of a ``signature`` entry.

    The first axis, when it is dynamic, is ``batch``; other dynamic axes get a name of their own. Unnamed tensors are
    ``input_0`` and ``output_0``: the file's own names, where a worker can read them, come before these.

    Args:
        signature: The entry, or None.

    Returns:
        Both sides; a side that is missing or not made of tensors (columns of a table) is empty.

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
        tensor = row["tensor-spec"]
        shape = tuple(_name_axis(name, axis, int(size)) for axis, size in enumerate(tensor["shape"]))
        specs.append(TensorSpec(name=name, dtype=np.dtype(tensor["dtype"]).name, shape=shape))
    return tuple(specs)


def _name_axis(name: str, axis: int, size: int) -> int | str:
    if size >= 0:
        return size
    return "batch" if axis == 0 else f"{name}_{axis}"
