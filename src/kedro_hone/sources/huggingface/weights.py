"""Safetensors: the header, and one file in a fixed order from all files of a model's weights.

A file is eight bytes (the header's length), the header (JSON: each tensor's type, shape and place), and the tensors.
The header is untrusted, so it is limited and checked before anything is read with it. Tensors are copied in blocks,
since a model may be larger than the memory.

https://github.com/huggingface/safetensors#format
"""

from __future__ import annotations

import itertools
import json
import math
import re
import struct
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, Final

from hone_runtime.values.manifest import link_or_copy

LARGEST_HEADER: Final = 100 * 1000 * 1000
"""The largest header in bytes, as in the library safetensors."""
_FEW, _PER_BRACKET = 1000, 12
"""The brackets that a header may have, and the bytes for each further one: a tensor has three in at least 50 bytes."""
_BLOCK: Final = 16 << 20
_TYPES: Final = {  # bits of one number, in the library's order
    "BOOL": 8, "F4": 4, "F6_E2M3": 6, "F6_E3M2": 6, "U8": 8, "I8": 8, "F8_E5M2": 8, "F8_E4M3": 8, "F8_E8M0": 8,
    "F8_E4M3FNUZ": 8, "F8_E5M2FNUZ": 8, "I16": 16, "U16": 16, "F16": 16, "BF16": 16, "I32": 32, "U32": 32, "F32": 32,
    "C64": 64, "F64": 64, "I64": 64, "U64": 64,
}  # fmt: skip
_FLOATS: Final = {"F32": "float32", "F16": "float16", "BF16": "bfloat16", "F64": "float64"}
_ORDER: Final = {name: place for place, name in enumerate(_TYPES)}
_POSITIONS: Final = re.compile(r"(.*\.)?embeddings\.position_ids")
"""A buffer of 0, 1, 2 … that old versions of Transformers saved, and no version reads."""


@dataclass(frozen=True, kw_only=True)
class Tensor:
    """One tensor in a file."""

    name: str
    dtype: str
    shape: tuple[int, ...]
    path: Path
    start: int  # bytes from the beginning of the file
    size: int  # bytes


def read_tensors(path: Path) -> list[Tensor]:
    """Return the tensors of a file, in the order of their positions.

    Raises:
        ValueError: It is not a safetensors file, truncated, or its header is inconsistent.
        OSError: It cannot be read.
    """
    total = path.stat().st_size
    with path.open("rb") as file:
        length = struct.unpack("<Q", file.read(8))[0] if total >= 8 else 0
        if not 2 <= length <= min(LARGEST_HEADER, total - 8):
            raise ValueError(f"its header cannot have {length} bytes")
        text = file.read(length)
        if text.count(b"[") + text.count(b"{") > _FEW + length // _PER_BRACKET:
            raise ValueError("its header is not JSON with tensors, and would fill the memory")
        try:
            header = json.loads(text)
        except (ValueError, RecursionError) as error:
            raise ValueError("its header is not JSON") from error
    if not isinstance(header, dict):
        raise ValueError("its header is not a dictionary")  # noqa: TRY004 - of a file, not of an argument
    tensors = [_read_row(name, row, path, 8 + length) for name, row in header.items() if name != "__metadata__"]
    tensors.sort(key=lambda tensor: (tensor.start, tensor.size))
    end = 8 + length
    for tensor in tensors:
        if tensor.start != end:
            raise ValueError(f"there is a gap or an overlap at the tensor {tensor.name[:80]!r}")
        end += tensor.size
    if end != total:
        raise ValueError(f"it has {total} bytes, and its header describes {end}")
    return tensors


def _read_row(name: str, row: object, path: Path, base: int) -> Tensor:
    if not isinstance(row, dict) or row.keys() != {"dtype", "shape", "data_offsets"}:
        raise ValueError(f"its header says something else than a type, a shape and a place of {name[:80]!r}")
    dtype, shape, offsets = row["dtype"], row["shape"], row["data_offsets"]
    numbers = [*shape, *offsets] if isinstance(shape, list) and isinstance(offsets, list) else [None]
    fits = dtype in _TYPES if isinstance(dtype, str) else False
    if not fits or len(offsets) != 2 or not all(type(number) is int and 0 <= number < 2**63 for number in numbers):
        raise ValueError(f"the type, shape or place of {name[:80]!r} cannot be")
    start, end = offsets
    if len(shape) > 64 or math.prod(shape) * _TYPES[dtype] != (end - start) * 8:
        raise ValueError(f"{name[:80]!r} has {end - start} bytes, which does not fit its shape")
    return Tensor(name=name, dtype=dtype, shape=tuple(shape), path=path, start=base + start, size=end - start)


def find_dtype(tensors: Sequence[Tensor]) -> str | None:
    """Return the floating-point type of most bytes of the weights, by its name in torch."""
    sizes = dict.fromkeys(_FLOATS, 0)
    for tensor in tensors:
        if tensor.dtype in sizes:
            sizes[tensor.dtype] += tensor.size
    largest = max(sizes, key=lambda dtype: sizes[dtype])
    return _FLOATS[largest] if sizes[largest] else None


def write_canonical(sources: Sequence[Path], target: Path) -> None:
    """Write the tensors of one file or of several as one file, in the order of the library safetensors.

    So the same weights have the same bytes, whatever program saved them and in how many parts. The header's remarks and
    unused buffers are left out. A file that already has this form is linked if possible.

    Raises:
        ValueError: As ``read_tensors``, or two files have a tensor of the same name.
    """
    tensors = [
        tensor
        for path in sources
        for tensor in read_tensors(path)
        if not (tensor.dtype == "I64" and _POSITIONS.fullmatch(tensor.name))
    ]
    if len({tensor.name for tensor in tensors}) < len(tensors):
        raise ValueError("two of its files have a tensor of the same name")
    tensors.sort(key=lambda tensor: (-_ORDER[tensor.dtype], tensor.name))
    header = _write_header(tensors)
    if len(sources) == 1 and _begins_with(sources[0], header, size=len(header) + sum(t.size for t in tensors)):
        link_or_copy(sources[0].resolve(), target)
        return
    with target.open("wb") as file:
        file.write(header)
        for path, group in itertools.groupby(tensors, key=lambda tensor: tensor.path):
            with path.open("rb") as source:
                for tensor in group:
                    _copy(source, file, tensor)


def _write_header(tensors: Sequence[Tensor]) -> bytes:
    rows: dict[str, object] = {"__metadata__": {"format": "pt"}}
    place = 0
    for tensor in tensors:
        offsets = [place, place + tensor.size]
        rows[tensor.name] = {"dtype": tensor.dtype, "shape": list(tensor.shape), "data_offsets": offsets}
        place += tensor.size
    text = json.dumps(rows, separators=(",", ":"), ensure_ascii=False).encode()
    text += b" " * (-len(text) % 8)
    return struct.pack("<Q", len(text)) + text


def _begins_with(path: Path, header: bytes, *, size: int) -> bool:
    with path.open("rb") as file:
        return path.stat().st_size == size and file.read(len(header)) == header


def _copy(source: BinaryIO, target: BinaryIO, tensor: Tensor) -> None:
    source.seek(tensor.start)
    left = tensor.size
    while left:
        block = source.read(min(_BLOCK, left))
        if not block:
            raise ValueError(f"it ends within {tensor.name[:80]!r}")
        target.write(block)
        left -= len(block)
