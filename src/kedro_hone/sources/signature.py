"""MLflow's tensor signatures as JSON, both ways, without importing MLflow."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import numpy as np

from kedro_hone.core.values.artifact import TensorSpec
from kedro_hone.core.values.base import Json


def write_signature(
    inputs: Sequence[TensorSpec], outputs: Sequence[TensorSpec], *, unnamed: bool
) -> dict[str, str | None] | None:
    """Return the ``signature`` entry of an ``MLmodel``.

    Args:
        inputs: The model's inputs.
        outputs: The model's outputs.
        unnamed: Whether a single tensor goes without its name, as PyTorch models have it; MLflow then asks for an
            array, else for a dictionary.

    Returns:
        The entry, or None when there is a type that numpy does not know, such as bfloat16, or text: by a signature with
        text MLflow refuses arrays of objects, and so the columns of tables.
    """
    try:
        sides = [json.dumps(_write_side(side, unnamed=unnamed and len(side) == 1)) for side in (inputs, outputs)]
    except TypeError:
        return None
    return {"inputs": sides[0], "outputs": sides[1], "params": None}


def read_signature(signature: Json) -> tuple[tuple[TensorSpec, ...], tuple[TensorSpec, ...]]:
    """Return the inputs and outputs that a ``signature`` entry tells of.

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


def _write_side(specs: Sequence[TensorSpec], *, unnamed: bool) -> list[dict[str, Any]]:
    side: list[dict[str, Any]] = []
    for spec in specs:
        shape = [size if isinstance(size, int) else -1 for size in spec.shape]
        row: dict[str, Any] = {"type": "tensor", "tensor-spec": {"dtype": _name_dtype(spec.dtype), "shape": shape}}
        side.append(row if unnamed else {"name": spec.name, **row})
    return side


def _name_dtype(name: str) -> str:
    dtype = np.dtype(name)
    if dtype.kind == "U":
        raise TypeError("MLflow takes no objects for text")
    if dtype.isbuiltin != 1:  # packages such as ml_dtypes teach numpy types that MLflow's readers need not know
        raise TypeError(f"{name} is no type of numpy's own")
    return dtype.name


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
