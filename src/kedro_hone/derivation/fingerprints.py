"""Fingerprints of rows: equal for equal content, whatever the format, the order of columns or the machine.

Rows are compared as a model sees them. So numbers are compared with the precision of float32, and texts without case,
accents and repeated white space, as many tokenizers read them. Two rows that differ by less have the same fingerprint.
"""

from __future__ import annotations

import hashlib
import re
import struct
import unicodedata
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from hone_runtime.interfaces.texts import is_missing
from kedro_hone.derivation.rows import Column
from kedro_hone.programs.worker.formats import MISSING

_PREFIX: Final = b"hone-rows-1"
"""Changed with the encoding: files are then split in another way."""

_WHOLE: Final = 2**53
_EXACT: Final = 2**24
"""Up to here float32 represents every integer."""

_CHUNK: Final = 8_192
"""The number of rows whose values are encoded together: arrays are fast, and few values are in memory twice."""
_NUMBER: Final = re.compile(
    r"[ \t]*[+-]?(?:(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?|inf(?:inity)?)[ \t]*", re.IGNORECASE
)
_FLOAT: Final = np.dtype([("length", "<u8"), ("kind", "S1"), ("value", "<f4")])

_TABLE: Final = unicodedata.ucd_3_2_0
"""A version of Unicode that every Python has."""


def hash_rows(columns: Mapping[str, Column], rows: int) -> list[bytes]:
    """Return the SHA-256 of the content of each row.

    Args:
        columns: The columns that make up the content, by name; their order does not count.
        rows: The number of rows.

    Returns:
        32 bytes for each row.
    """
    names = sorted(columns)
    start = hashlib.sha256(_PREFIX + _join([name.encode() for name in names]))
    encoders = [_encode_column(columns[name]) for name in names]
    made = []
    for first in range(0, rows, _CHUNK):
        last = min(first + _CHUNK, rows)
        for parts in zip(*(encode(first, last) for encode in encoders), strict=True):
            one = start.copy()
            one.update(b"".join(parts))
            made.append(one.digest())
    return made if names else [start.digest()] * rows


def is_number(text: str) -> bool:
    """Return whether a text is a number: it then has the fingerprint of the number."""
    return _NUMBER.fullmatch(text) is not None


def encode_value(value: Any) -> bytes:
    """Return the canonical bytes of one value: a number, text, truth value, list, record or array, or a missing one."""
    if isinstance(value, np.generic):
        value = value.item()
    if is_missing(value):
        return b"-"
    if isinstance(value, np.ndarray):
        return _encode_array(value)
    encode = next((encode for kind, encode in _ENCODERS if isinstance(value, kind)), None)
    return encode(value) if encode else _encode_text(str(value))  # dates, times and decimals


def _encode_column(column: Column) -> Callable[[int, int], list[bytes]]:
    """Return a function that returns the canonical values of some rows, each after its length.

    Its arguments are the numbers of the first row and of the row behind the last. Frequent values are encoded once.
    """
    known: dict[Any, bytes] = {}

    def encode(value: Any) -> bytes:
        if not isinstance(value, str | int | float):
            return _measure(encode_value(value))
        key = (type(value), value)  # True equals 1
        found = known.get(key)
        if found is None:
            found = known[key] = _measure(encode_value(value))
        return found

    def encode_rows(first: int, last: int) -> list[bytes]:
        rows = column[first:last]
        if isinstance(rows, np.ndarray):
            if rows.ndim > 1:
                return [_measure(encode_value(row)) for row in rows]
            if rows.dtype.kind == "f" and rows.dtype.itemsize <= 8:
                return _encode_numbers(rows.astype(np.float64), rows.tolist(), encode)
            rows = rows.tolist()
        return list(map(encode, rows))

    return encode_rows


def _encode_numbers(numbers: NDArray[np.float64], rows: Sequence[Any], encode: Callable[[Any], bytes]) -> list[bytes]:
    """Return what ``encode`` returns for each row, by arrays for the numbers that float32 does not make whole."""
    with np.errstate(over="ignore"):
        near = numbers.astype(np.float32)
    plain = (np.abs(numbers) < _WHOLE) & (near != np.trunc(near))
    made = np.zeros(len(numbers), dtype=_FLOAT)
    made["length"], made["kind"], made["value"] = 1 + near.itemsize, b"f", near
    parts: list[bytes] = made.view(f"V{_FLOAT.itemsize}").tolist()
    for at in np.flatnonzero(~plain).tolist():
        parts[at] = encode(rows[at])
    return parts


def _encode_number(value: float) -> bytes:
    if isinstance(value, int):
        return b"i%d" % value
    with np.errstate(over="ignore"):
        near = float(np.float32(value))
    if near.is_integer() and abs(near) < _EXACT:
        return b"i%d" % int(near)
    if value.is_integer() and abs(value) <= _WHOLE:
        return b"i%d" % int(value)
    return b"f" + struct.pack("<f", near)


def _encode_text(text: str) -> bytes:
    if text in MISSING:
        return b"-"
    if is_number(text):
        stripped = text.strip()
        digits = stripped.lstrip("+-")
        return _encode_number(int(stripped) if digits.isdigit() and len(digits) < 1000 else float(stripped))
    return b"s" + _fold(text).encode("utf-8", "surrogatepass")


def _fold(text: str) -> str:
    if not text.isascii():
        parts = _TABLE.normalize("NFKD", text)
        text = "".join(letter for letter in parts if not _TABLE.combining(letter))
    return " ".join(text.casefold().split())


def _encode_truth(value: bool) -> bytes:  # noqa: FBT001 - a value, not a flag
    return _encode_text(str(value))


def _encode_bytes(value: bytes) -> bytes:
    return b"b" + hashlib.sha256(value).digest()


def _encode_list(values: Iterable[Any]) -> bytes:
    return b"[" + _join([encode_value(one) for one in values])


def _encode_record(record: Mapping[Any, Any]) -> bytes:
    pairs = sorted((str(name), one) for name, one in record.items())
    return b"{" + _join([part for name, one in pairs for part in (name.encode(), encode_value(one))])


def _encode_array(array: np.ndarray[Any, Any]) -> bytes:
    if array.dtype.kind not in "biuf" or not array.ndim:
        return _encode_list(array.tolist() if array.ndim else [array.item()])
    kind = "<f4" if array.dtype.kind == "f" else "<u8" if array.dtype == np.uint64 else "<i8"
    with np.errstate(over="ignore"):
        plain = np.ascontiguousarray(array, dtype=kind)
    if kind == "<f4":
        plain = plain + np.float32(0)  # -0.0 becomes 0.0
        plain[np.isnan(plain)] = np.nan
    shape = ",".join(map(str, array.shape)).encode()
    return b"a" + _join([shape, kind[:2].encode(), hashlib.sha256(plain.tobytes()).digest()])


def _join(parts: list[bytes]) -> bytes:
    return b"".join(map(_measure, parts))


def _measure(part: bytes) -> bytes:
    """Return a part after its length, so that no two lists of parts are joined to the same bytes."""
    return struct.pack("<Q", len(part)) + part


_ENCODERS: Final[tuple[tuple[Any, Callable[[Any], bytes]], ...]] = (
    (str, _encode_text),
    (bool, _encode_truth),  # before numbers, of which truth values are a kind
    ((int, float), _encode_number),
    (bytes, _encode_bytes),
    ((list, tuple), _encode_list),
    (dict, _encode_record),
)
"""The first that fits is used."""
