"""Tensors of requests and results: checked, and converted from and to arrays.

Every check is strict: an array is made only from values of exactly the declared type, number and range.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from http import HTTPStatus
from types import MappingProxyType
from typing import Any, Final

import numpy as np

from kedro_hone.serving.server.failures import RequestError

Array = np.ndarray[Any, Any]
TEXT: Final = "BYTES"
HALF: Final = frozenset({"FP16", "BF16"})
"""The types that are sent as bytes only."""

_NUMPY: Final[Mapping[str, str]] = MappingProxyType(
    {
        "BOOL": "bool",
        "FP16": "float16",
        "FP32": "float32",
        "FP64": "float64",
        "BF16": "bfloat16",
        **{f"{kind.upper()}{bits}": f"{kind}{bits}" for kind in ("uint", "int") for bits in (8, 16, 32, 64)},
    }
)
_LENGTH: Final = struct.Struct("<I")
_LARGEST_SIZE: Final = 2**31


@dataclass(frozen=True, kw_only=True)
class Sent:
    """A tensor as a client sent it.

    Attributes:
        content: The bytes of the elements; or their values: from JSON a list, nested or flat, and from gRPC a tuple.
    """

    name: str
    datatype: str
    shape: tuple[int, ...]
    content: bytes | memoryview | Sequence[Any]


def find_dtype(datatype: str) -> np.dtype[Any]:
    """Return numpy's type of a datatype; objects for text.

    Raises:
        TypeError: This machine's numpy has no such type.
    """
    if datatype == TEXT:
        return np.dtype(object)
    if datatype == "BF16":
        import ml_dtypes  # noqa: F401, PLC0415 - registers the type, and only few models need it
    return np.dtype(_NUMPY[datatype])


def read_shape(name: str, given: Any) -> tuple[int, ...]:
    """Return the shape of a request's tensor.

    Raises:
        RequestError: It is not a list of sizes, or one is 0 or too large.
    """
    if not isinstance(given, Sequence) or isinstance(given, str) or not all(type(size) is int for size in given):
        raise RequestError(f"the shape of {name} is not a list of whole numbers")
    if not all(0 < size < _LARGEST_SIZE for size in given):
        raise RequestError(f"the shape of {name} is {list(given)}; each size is at least 1")
    return tuple(given)


def decode(sent: Sent) -> Array:
    """Return the array of a tensor.

    Raises:
        RequestError: The content does not fit the type or the shape.
    """
    count = math.prod(sent.shape)
    if isinstance(sent.content, bytes | memoryview):
        found = _decode_bytes(sent, sent.content, count)
    else:
        found = _decode_values(sent, _flatten(sent.content, sent.name), count)
    return found.reshape(sent.shape)


def _decode_bytes(sent: Sent, content: bytes | memoryview, count: int) -> Array:
    if sent.datatype == TEXT:
        return _decode_texts(sent.name, _split(sent.name, content, count))
    dtype = find_dtype(sent.datatype)
    if len(content) != count * dtype.itemsize:
        due = f"{count * dtype.itemsize} for the shape {list(sent.shape)} of {sent.datatype}"
        raise RequestError(f"{sent.name} has {len(content)} bytes instead of {due}")
    if sent.datatype == "BOOL" and np.frombuffer(content, np.uint8).max(initial=0) > 1:
        raise RequestError(f"{sent.name} is BOOL, and has bytes other than 0 and 1")
    # A copy: runtimes need memory that is aligned, and some write into it.
    return np.frombuffer(content, dtype).copy()


def _split(name: str, content: bytes | memoryview, count: int) -> list[bytes]:
    """Return texts, each of which has its length before it."""
    found, at = list[bytes](), 0
    while at < len(content):
        end = at + _LENGTH.size
        if end > len(content) or (end := end + _LENGTH.unpack_from(content, at)[0]) > len(content):
            raise RequestError(f"{name} ends within a text: each one follows its length, 4 bytes, little-endian")
        found.append(bytes(content[at + _LENGTH.size : end]))
        at = end
    if len(found) != count:
        raise RequestError(f"{name} has {len(found)} elements, and its shape {count}")
    return found


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


def _decode_values(sent: Sent, flat: Sequence[Any], count: int) -> Array:
    if len(flat) != count:
        raise RequestError(f"{sent.name} has {len(flat)} elements, and its shape {list(sent.shape)} has {count}")
    if sent.datatype == TEXT:
        return _decode_texts(sent.name, flat)
    if sent.datatype in HALF:
        raise RequestError(f"{sent.name} is {sent.datatype}, which is sent as binary data only")
    dtype = find_dtype(sent.datatype)
    allowed: set[type] = {bool} if dtype.kind == "b" else {int, float} if dtype.kind == "f" else {int}
    if odd := set(map(type, flat)) - allowed:
        names = ", ".join(sorted(one.__name__ for one in odd))
        raise RequestError(f"{sent.name} is {sent.datatype}, and its data contains values of the type {names}")
    try:
        with np.errstate(over="ignore"):
            found = np.array(flat, dtype)
    except (OverflowError, ValueError) as error:
        raise RequestError(f"{sent.name} has a value beyond the range of {sent.datatype}") from error
    if dtype.kind == "f" and isinstance(flat, list) and not np.isfinite(found).all():
        # JSON, which is read into lists, has no such values: a number was too large. gRPC has them.
        raise RequestError(f"{sent.name} has a value beyond the range of {sent.datatype}")
    return found


def _decode_texts(name: str, values: Sequence[Any]) -> Array:
    found = np.empty(len(values), object)
    for at, value in enumerate(values):
        if not isinstance(value, bytes | str):
            raise RequestError(f"{name} is BYTES, and its data contains values of the type {type(value).__name__}")
        try:
            found[at] = value if isinstance(value, str) else value.decode()
        except UnicodeDecodeError as error:
            raise RequestError(f"{name} has a text that is not UTF-8") from error
    return found


def encode_bytes(array: Array) -> bytes:
    """Return the elements of an array as bytes; a text follows its length."""
    if array.dtype.kind not in "OUS":
        return np.ascontiguousarray(array).tobytes()
    texts = map(encode_text, array.ravel())
    return b"".join(part for text in texts for part in (_LENGTH.pack(len(text)), text))


def encode_text(value: Any) -> bytes:
    """Return the bytes of an element of text."""
    return value if isinstance(value, bytes) else str(value).encode("utf-8", "surrogatepass")


def encode_values(name: str, datatype: str, array: Array) -> list[Any]:
    """Return the elements of an array as values for JSON, flat.

    Raises:
        RequestError: JSON cannot express them.
    """
    if datatype == TEXT:
        return [value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value) for value in array.flat]
    if datatype in HALF:
        raise RequestError(f"{name} is {datatype}: request it as binary data, by its parameter binary_data")
    if array.dtype.kind == "f" and not np.isfinite(array).all():
        raise RequestError(f"{name} has infinite values or NaN, which JSON lacks: request it as binary data")
    flat: list[Any] = array.ravel().tolist()
    return flat


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
