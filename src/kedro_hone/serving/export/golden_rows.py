"""Golden rows as requests and responses of the Open Inference Protocol, and as the raw bytes of its tensors."""

from __future__ import annotations

import json
import struct
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from hone_runtime.learner.golden import Golden, Packed
from hone_runtime.values.artifact import TensorSpec
from kedro_hone.serving.tensors import DYNAMIC, Datatype, Tensor, find_datatype

MOST_ROWS: Final = 8
"""A request has at most this number of golden rows, unless the model needs more."""

REQUEST, RESPONSE = "request.json", "response.json"

Arrays = Mapping[str, NDArray[Any]]


@dataclass(frozen=True, kw_only=True)
class GoldenRows:
    """Rows with finite numbers only, since JSON has no others; by the names of the model's tensors.

    Attributes:
        tolerance: The allowed difference on any machine, relative to an output's largest absolute value.
    """

    inputs: Arrays
    outputs: Arrays
    tolerance: float


def choose_rows(
    golden: Golden | None, inputs: Sequence[Tensor], outputs: Sequence[Tensor], *, stored: Mapping[str, Packed]
) -> GoldenRows | None:
    """Return golden rows that fit a model's shapes; None if there are none.

    Rows are repeated where a model has a fixed number of them: a winner computes each row by itself.

    Args:
        golden: The winner's golden rows; None if it has none.
        inputs: The model's inputs, with fixed sizes where the model has them.
        outputs: The model's outputs.
        stored: The model's outputs for the golden rows.
    """
    if golden is None or not {tensor.name for tensor in inputs} <= golden.inputs.keys():
        return None
    fed = {tensor.name: golden.inputs[tensor.name].unpack() for tensor in inputs}
    made = {tensor.name: stored[tensor.name].unpack() for tensor in outputs if tensor.name in stored}
    sizes = {tensor.shape[0] for tensor in inputs if tensor.shape} - {DYNAMIC}
    finite = np.logical_and.reduce([_find_finite_rows(array) for array in (*fed.values(), *made.values())])
    rows = np.flatnonzero(finite)
    if not len(rows) or not made or len(sizes) > 1:
        return None
    rows = np.resize(rows, next(iter(sizes), min(len(rows), MOST_ROWS)))
    chosen = [{name: array[rows] for name, array in side.items()} for side in (fed, made)]
    if not _fit(chosen[0], inputs) or not _fit(chosen[1], outputs):
        return None
    return GoldenRows(inputs=chosen[0], outputs=chosen[1], tolerance=golden.tolerance)


def _find_finite_rows(array: NDArray[Any]) -> NDArray[np.bool_]:
    if array.dtype.kind != "f":
        return np.ones(len(array), bool)
    return np.asarray(np.isfinite(array).reshape(len(array), -1).all(axis=1))


def _fit(arrays: Arrays, tensors: Iterable[Tensor]) -> bool:
    """Whether arrays have the types and the shapes of their tensors."""
    due = {tensor.name: tensor for tensor in tensors}
    return all(
        _find_datatype(name, array) == due[name].datatype
        and len(array.shape) == len(due[name].shape)
        and all(size in {DYNAMIC, real} for size, real in zip(due[name].shape, array.shape, strict=True))
        for name, array in arrays.items()
    )


def _find_datatype(name: str, array: NDArray[Any]) -> Datatype:
    dtype = "str" if array.dtype.kind == "U" else array.dtype.name
    return find_datatype(TensorSpec(name=name, dtype=dtype, shape=()))


def list_golden_files(
    rows: GoldenRows, inputs: Iterable[Tensor], outputs: Iterable[Tensor], *, name: str
) -> dict[PurePosixPath, bytes]:
    """Return the request and the expected response of version 2 of the protocol, for the model ``name``.

    The response's ``parameters`` have the tolerance.
    """
    request = {"id": "golden", "inputs": [_write_tensor(tensor, rows.inputs[tensor.name]) for tensor in inputs]}
    response = {
        "id": "golden",
        "model_name": name,
        "parameters": {"tolerance": rows.tolerance},
        "outputs": [
            _write_tensor(tensor, rows.outputs[tensor.name]) for tensor in outputs if tensor.name in rows.outputs
        ],
    }
    return {
        PurePosixPath(file): f"{json.dumps(document, allow_nan=False)}\n".encode()
        for file, document in ((REQUEST, request), (RESPONSE, response))
    }


def _write_tensor(tensor: Tensor, array: NDArray[Any]) -> dict[str, Any]:
    shape = list(array.shape)
    return {"name": tensor.name, "shape": shape, "datatype": tensor.datatype, "data": array.ravel().tolist()}


def pack_raw(array: NDArray[Any]) -> bytes:
    """Return the raw bytes of a tensor: little-endian, first index slowest; texts in UTF-8, each after its length."""
    if array.dtype.kind == "U":
        texts = [text.encode() for text in array.ravel().tolist()]
        return b"".join(struct.pack("<I", len(text)) + text for text in texts)
    return np.ascontiguousarray(array.astype(array.dtype.newbyteorder("<"))).tobytes()
