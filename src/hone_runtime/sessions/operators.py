"""Counts of the operators of a loaded model by the numbers that they compute with.

A session that can list what its runtime executes has a method ``count_operators``, which returns ``count_kinds`` of
it. Toolchains' workers import this module as ``hone_runtime.sessions.operators``. Standard library only.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    Operator = tuple[str, Sequence[str], Sequence[str]]
    """Its kind, and the types of the numbers that it reads, weights included, and writes."""

OTHER = "other"
"""Operators that convert between types, or compute with none of the listed ones, such as with integers of 64 bits."""

_INTEGERS = {
    "int4": {"int4", "uint4", "i4", "u4", "nf4"},
    "int8": {"int8", "uint8", "i8", "u8", "qint8", "quint8"},
}
"""Types of quantized numbers, the narrowest first."""
_FLOATS = {
    **dict.fromkeys(("float32", "float", "f32"), "fp32"),
    **dict.fromkeys(("float16", "half", "f16"), "fp16"),
    **dict.fromkeys(("bfloat16", "bf16"), "bf16"),
}
_CONVERSIONS = {
    *("cast", "castlike", "convert", "reorder", "quantize", "dequantize", "fakequantize"),
    *("quantizelinear", "dequantizelinear", "dynamicquantizelinear", "shape", "shapeof", "size"),
    *("tocopy", "quantizepertensor", "quantizeperchannel", "dequantizepertensor", "dequantizeperchannel"),
}
"""Kinds that only convert numbers, or return sizes, in lower case and without namespace and underscores."""


def count_operators(session: Any, feeds: dict[str, Any]) -> dict[str, dict[str, int]] | None:
    """Return how many operators a session executes for some feeds, by precision and kind; None if it cannot count."""
    count = getattr(session, "count_operators", None)
    return None if count is None else count(feeds)


def count_kinds(operators: Iterable[Operator]) -> dict[str, dict[str, int]]:
    """Return how many operators of each kind there are, by precision: ``int4``, ``int8``, ``bf16``, … or ``other``."""
    counts: dict[str, dict[str, int]] = {}
    for kind, read, written in operators:
        kinds = counts.setdefault(find_precision(kind, read, written), {})
        kinds[kind] = kinds.get(kind, 0) + 1
    return counts


def find_precision(kind: str, read: Sequence[str], written: Sequence[str]) -> str:
    """Return the precision of an operator from the types of the numbers that it reads and writes.

    It is the narrowest quantized type, also if only the weights have it; otherwise the first type of floating-point
    numbers that it writes or reads.
    """
    if kind.rpartition(".")[2].replace("_", "").lower() in _CONVERSIONS:
        return OTHER
    found = [*written, *read]
    for precision, names in _INTEGERS.items():
        if names.intersection(found):
            return precision
    return next((_FLOATS[name] for name in found if name in _FLOATS), OTHER)
