"""Compare a program's JSON with torch's own schema: every value has the declared type, or the program is refused.

``torch.export`` builds its dataclasses without checking types, and writes their values into Python code. This module
ensures that no other type reaches it, and that every text is in a place for which :mod:`texts` has a rule.
"""

from __future__ import annotations

import dataclasses
import functools
import types
import typing
from collections.abc import Iterator
from enum import Enum
from typing import Any

from . import texts

_DEEPEST = 100  # limit of nesting; a graph in a graph has six more levels
_ENDLESS = {"Infinity", "-Infinity", "NaN"}  # torch's texts for numbers that JSON does not have
_BITS = 64


def find_program(value: Any) -> Iterator[str]:
    """Yield the parts of a program's JSON that torch would not write."""
    from torch._export.serde import schema

    yield from _find(value, schema.ExportedProgram, "program")
    for each in value["graph_module"]["graph"]["inputs"]:  # these become guards, between quotes
        if "'" in str(each.get("as_string")):
            yield f"its input {each['as_string'][:80]!r} could end a string in source"


def find_payloads(value: Any) -> Iterator[str]:
    """Yield the parts of a tensor list's JSON that torch would not write."""
    from torch._export.serde import schema

    yield from _find(value, schema.PayloadConfig, "list")


@functools.cache
def _hint(kind: Any) -> dict[str, Any]:
    return typing.get_type_hints(kind)


@functools.cache
def _values(kind: Any) -> frozenset[int]:
    return frozenset(each.value for each in kind)


def _find(value: Any, kind: Any, place: str, depth: int = 0) -> Iterator[str]:
    """Yield values of a wrong type; a place is a class of the schema with its field, as ``TensorArgument.name``."""
    origin, inner = typing.get_origin(kind), typing.get_args(kind)
    if depth > _DEEPEST:
        yield "its values are nested too deeply"
    elif origin in (typing.Union, types.UnionType):  # with None: the schema has no others
        yield from _find(value, inner[0], place, depth) if value is not None else ()
    elif dataclasses.is_dataclass(kind):
        yield from _find_fields(value, kind, place, depth + 1)
    elif origin is list and type(value) is list:
        for each in value:
            yield from _find(each, inner[0], place, depth + 1)
    elif origin is dict and type(value) is dict:
        for key, each in value.items():
            yield from texts.find_misused(f"{place}[]", key)
            yield from _find(each, inner[1], place, depth + 1)
    elif kind is str and isinstance(value, str):
        yield from texts.find_misused(place, value)
    elif origin or not _is_plain(value, kind):
        yield _misfit(value, place)


def _find_fields(value: Any, kind: Any, place: str, depth: int) -> Iterator[str]:
    hints = _hint(kind)
    unions = [base for base in kind.__mro__ if base.__name__ == "_Union"]
    if type(value) is not dict or (unions and len(value) != 1):
        yield _misfit(value, place)
        return
    for name, each in value.items():
        if name in hints:
            yield from _find(each, hints[name], f"{kind.__name__}.{name}", depth)
        else:
            yield f"its {kind.__name__} has {name[:80]!r}, which torch does not know"


def _is_plain(value: Any, kind: Any) -> bool:
    """Whether a value is a flag, a number, or a number of an enumeration, of exactly this kind."""
    if kind is float and isinstance(value, str):
        return value in _ENDLESS
    if kind is float and type(value) is float:
        return True
    if kind is bool:
        return type(value) is bool
    if type(value) is not int or value.bit_length() > _BITS:
        return False
    return kind in (int, float) or (issubclass(kind, Enum) and value in _values(kind))


def _misfit(value: Any, place: str) -> str:
    found = f"the text {value[:80]!r}" if isinstance(value, str) else f"of the type {type(value).__name__}"
    return f"its {place} is {found}, which the schema of torch.export does not have there"
