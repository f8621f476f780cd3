"""Tensors of requests and results, converted to arrays.

Every check is strict: an array is made only from values of exactly the declared type, number and range. KServe's
``as_numpy`` makes NaN of null and of "NaN", 1 of true, and 1 of 1.5.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Mapping, Sequence
from http import HTTPStatus
from types import MappingProxyType
from typing import Any, Final, Protocol

import numpy as np

from kedro_hone.serving.server.failures import RequestError

Array = np.ndarray[Any, Any]
TEXT: Final = "BYTES"

_NUMPY: Final[Mapping[str, str]] = MappingProxyType(
    {
        "BOOL": "bool",
        "FP16": "float16",
        "FP32": "float32",
        "FP64": "float64",
        TEXT: "object",
        **{f"{kind.upper()}{bits}": f"{kind}{bits}" for kind in ("uint", "int") for bits in (8, 16, 32, 64)},
    }
)
_LARGEST_SIZE: Final = 2**31


class Sent(Protocol):
    """KServe's ``InferInput``: a tensor as a client sent it.

    Attributes:
        data: The values, nested or flat; empty or None if they came as bytes.
    """

    name: str
    datatype: str
    shape: list[int]
    data: list[Any] | None

    def as_numpy(self) -> Array:
        """Return the array of the bytes."""


def find_dtype(datatype: str) -> np.dtype[Any]:
    """Return numpy's type of a datatype; objects for text.

    Raises:
        KeyError: KServe has no such type.
    """
    return np.dtype(_NUMPY[datatype])


def check_shape(name: str, shape: Sequence[int]) -> None:
    """Raise ``RequestError`` if a size of a request's tensor is 0 or too large."""
    if not all(0 < size < _LARGEST_SIZE for size in shape):
        raise RequestError(f"the shape of {name} is {list(shape)}; each size is at least 1")


def decode(sent: Sent, *, finite: bool) -> Array:
    """Return the array of a tensor.

    Args:
        sent: The tensor.
        finite: Whether it is from JSON, which has no infinite values: a number was too large.

    Raises:
        RequestError: The content does not fit the type or the shape.
    """
    if sent.data:
        return decode_values(sent.name, sent.datatype, sent.data, shape=sent.shape, finite=finite)
    try:
        found = sent.as_numpy()
    except (ValueError, struct.error) as error:
        due = f"{sent.datatype} and the shape {sent.shape}"
        raise RequestError(f"the bytes of {sent.name} do not fit {due}: {error}") from error
    if sent.datatype == TEXT:
        return decode_texts(sent.name, found.ravel().tolist()).reshape(found.shape)
    if sent.datatype == "BOOL" and found.view(np.uint8).max(initial=0) > 1:
        raise RequestError(f"{sent.name} is BOOL, and has bytes other than 0 and 1")
    return found.copy()  # runtimes need memory that is aligned, and some write into it


def decode_values(name: str, datatype: str, values: Sequence[Any], *, shape: Sequence[int], finite: bool) -> Array:
    """Return the array of a tensor that was sent as values, nested or flat.

    Raises:
        RequestError: They do not fit the type or the shape.
    """
    flat = _flatten(values, name)
    if len(flat) != math.prod(shape):
        raise RequestError(f"{name} has {len(flat)} elements, and its shape {list(shape)} has {math.prod(shape)}")
    if datatype == TEXT:
        return decode_texts(name, flat).reshape(shape)
    if datatype == "FP16":
        raise RequestError(f"{name} is {datatype}, which is sent as binary data only")
    dtype = find_dtype(datatype)
    allowed: set[type] = {bool} if dtype.kind == "b" else {int, float} if dtype.kind == "f" else {int}
    if odd := set(map(type, flat)) - allowed:
        names = ", ".join(sorted(one.__name__ for one in odd))
        raise RequestError(f"{name} is {datatype}, and its data contains values of the type {names}")
    try:
        with np.errstate(over="ignore"):
            found = np.array(flat, dtype)
    except (OverflowError, ValueError) as error:
        raise RequestError(f"{name} has a value beyond the range of {datatype}") from error
    if finite and dtype.kind == "f" and not np.isfinite(found).all():
        raise RequestError(f"{name} has a value beyond the range of {datatype}")
    return found.reshape(shape)


def _flatten(content: Sequence[Any], name: str) -> Sequence[Any]:
    """Return nested lists as one; lists of unequal lengths have another number of elements."""
    for _ in range(32):  # numpy has arrays of at most so many dimensions
        kinds = set(map(type, content))
        if list not in kinds:
            return content
        if len(kinds) > 1 or len(set(map(len, content))) > 1:
            break
        content = [value for row in content for value in row]
    raise RequestError(f"the data of {name} is not a list, or lists of equal lengths")


def decode_texts(name: str, values: Sequence[Any]) -> Array:
    """Return texts as an array.

    Raises:
        RequestError: One is no text, or not UTF-8.
    """
    found = np.empty(len(values), object)
    for at, value in enumerate(values):
        if not isinstance(value, bytes | str):
            raise RequestError(f"{name} is BYTES, and its data contains values of the type {type(value).__name__}")
        try:
            found[at] = value if isinstance(value, str) else value.decode()
        except UnicodeDecodeError as error:
            raise RequestError(f"{name} has a text that is not UTF-8") from error
    return found


def check_result(name: str, datatype: str, array: Any) -> Array:
    """Return a model's output as an array of its declared type.

    Raises:
        RequestError: It has another type: a fault of the model, or of its description.
    """
    found = np.asarray(array)
    if datatype == TEXT and found.dtype.kind in "OUS":
        return found
    if found.dtype != find_dtype(datatype):
        text = f"the output {name} has the type {found.dtype}, and is described as {datatype}"
        raise RequestError(text, HTTPStatus.INTERNAL_SERVER_ERROR)
    return found
