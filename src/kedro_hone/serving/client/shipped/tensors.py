"""Arrays of a model: checked before a request is sent, and when an answer has arrived."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]

TEXT: Final = "BYTES"
"""The protocol's type of text, which this package takes and returns as arrays of ``str``."""

_TYPES: Final[Mapping[str, Any]] = {
    "BOOL": np.bool_,
    "UINT8": np.uint8,
    "UINT16": np.uint16,
    "UINT32": np.uint32,
    "UINT64": np.uint64,
    "INT8": np.int8,
    "INT16": np.int16,
    "INT32": np.int32,
    "INT64": np.int64,
    "FP16": np.float16,
    "FP32": np.float32,
    "FP64": np.float64,
    "BF16": np.float32,  # numpy lacks it: tritonclient takes and returns float32
}


class InterfaceError(ValueError):
    """An array, an answer, or the server's model does not match the interface that this package was generated from."""


@dataclass(frozen=True, kw_only=True)
class Tensor:
    """One input or output.

    Attributes:
        name: The model's own name, which is sent to the server.
        argument: The name of the argument of ``infer``, or of the field of its result.
        datatype: The type's name in the Open Inference Protocol.
        shape: The sizes; the name of each dynamic dimension. Equal names have equal sizes in one call.
    """

    name: str
    argument: str
    datatype: str
    shape: tuple[int | str, ...]


def encode(tensors: Iterable[Tensor], arrays: Mapping[str, Array], sizes: dict[str, int]) -> dict[str, Array]:
    """Return the inputs by the model's names, as they are sent; text is encoded as UTF-8.

    Args:
        tensors: The inputs.
        arrays: An array for each argument.
        sizes: Receives the size of each named dimension.

    Raises:
        InterfaceError: An array has another type or shape, or a named dimension has two sizes.
    """
    return {one.name: _encode_one(one, arrays[one.argument], sizes) for one in tensors}


def decode(tensors: Iterable[Tensor], arrays: Mapping[str, Array | None], sizes: dict[str, int]) -> dict[str, Array]:
    """Return the outputs by the names of the result's fields; text is decoded.

    Args:
        tensors: The outputs.
        arrays: What the server returned, by the model's names; None if an output is missing.
        sizes: The sizes of the named dimensions of the inputs.

    Raises:
        InterfaceError: An output is missing, or has another type or shape.
    """
    return {one.argument: _decode_one(one, arrays.get(one.name), sizes) for one in tensors}


def find_differences(side: str, tensors: Iterable[Tensor], described: Iterable[Mapping[str, Any]]) -> list[str]:
    """Return how the metadata of a server's model differ from its inputs, or from its outputs.

    Args:
        side: ``input`` or ``output``, for the sentences.
        tensors: What this package was generated from.
        described: The server's metadata; gRPC's JSON form has the sizes as text.
    """
    wanted = {
        one.name: (one.datatype, [size if isinstance(size, int) else -1 for size in one.shape]) for one in tensors
    }
    found = {str(one["name"]): (str(one["datatype"]), [int(size) for size in one["shape"]]) for one in described}
    return [
        f"the {side} {name!r} is {found.get(name, 'missing')} on the server, and {wanted.get(name, 'missing')} here"
        for name in sorted(wanted.keys() | found.keys())
        if wanted.get(name) != found.get(name)
    ]


def _encode_one(tensor: Tensor, array: Array, sizes: dict[str, int]) -> Array:
    what = f"the argument {tensor.argument}"
    if not isinstance(array, np.ndarray):
        raise InterfaceError(f"{what} is a {type(array).__name__}, and a numpy array is due")
    _check_shape(what, tensor, array, sizes)
    if tensor.datatype != TEXT:
        _check_type(what, tensor, array)
        return np.ascontiguousarray(array).reshape(array.shape)  # a scalar keeps its shape
    if array.dtype.kind != "U" and not all(isinstance(one, str) for one in array.ravel().tolist()):
        raise InterfaceError(f"{what} has the type {array.dtype}, and an array of str is due")
    encoded = np.empty(array.size, np.object_)
    encoded[:] = [str(one).encode() for one in array.ravel().tolist()]
    return encoded.reshape(array.shape)


def _decode_one(tensor: Tensor, array: Array | None, sizes: dict[str, int]) -> Array:
    what = f"the server's output {tensor.name!r}"
    if array is None:
        raise InterfaceError(f"{what} is missing")
    _check_shape(what, tensor, array, sizes)
    if tensor.datatype != TEXT:
        _check_type(what, tensor, array)
        return array
    decoded = [one.decode() if isinstance(one, bytes) else str(one) for one in array.ravel().tolist()]
    return np.array(decoded, np.str_).reshape(array.shape)


def _check_type(what: str, tensor: Tensor, array: Array) -> None:
    due = np.dtype(_TYPES[tensor.datatype])
    if array.dtype != due:
        raise InterfaceError(f"{what} has the type {array.dtype}, and {due} is due")


def _check_shape(what: str, tensor: Tensor, array: Array, sizes: dict[str, int]) -> None:
    if array.ndim != len(tensor.shape):
        raise InterfaceError(f"{what} has the shape {array.shape}, and {tensor.shape} is due")
    for size, due in zip(array.shape, tensor.shape, strict=True):
        known = due if isinstance(due, int) else sizes.setdefault(due, size)
        if size != known:
            named = "" if isinstance(due, int) else f", where {due!r} is {known}"
            raise InterfaceError(f"{what} has the shape {array.shape}, and {tensor.shape} is due{named}")
