"""Validation errors of pydantic in a configuration, in the terms of YAML."""

from __future__ import annotations

import difflib
import reprlib
from collections.abc import Iterable, Mapping
from typing import Any, Final

_LIST, _KEYS, _WHOLE = "a list", "keys with values", "a whole number"
_NUMBER, _SWITCH = "a number", "true or false"
_KINDS: Final = {
    **dict.fromkeys(("tuple_type", "list_type", "frozen_set_type", "set_type"), _LIST),
    **dict.fromkeys(("dict_type", "model_type"), _KEYS),
    **dict.fromkeys(("int_type", "int_parsing", "int_from_float"), _WHOLE),
    **dict.fromkeys(("float_type", "float_parsing"), _NUMBER),
    **dict.fromkeys(("bool_type", "bool_parsing"), _SWITCH),
    "string_type": "text",
}


def explain_value(where: str, problem: Mapping[str, Any], *, secret: bool = False) -> str:
    """Return a message about an invalid value.

    Args:
        where: The key, with those above it.
        problem: One of the ``errors()`` of a ``ValidationError``, but not an unknown key.
        secret: Whether the value may be a secret, and is not quoted.
    """
    if problem["type"] == "value_error":
        return f"{where}: {problem['ctx']['error']}"
    if problem["type"] == "missing":
        return f"{where}: is missing"
    if problem["type"] == "too_short":
        return f"{where}: needs at least {problem['ctx']['min_length']}, and has {problem['ctx']['actual_length']}"
    if kind := _KINDS.get(problem["type"]):
        return f"{where}: must be {kind}" + ("" if secret else f", and not {reprlib.repr(problem['input'])}")
    return f"{where}: {problem['msg']}"


def explain_unknown(where: str, key: str, known: Iterable[str]) -> str:
    """Return a message that a key is unknown, with the nearest known one."""
    near = difflib.get_close_matches(key, known, n=1, cutoff=0.5)
    return f"{where}: unknown key" + (f", did you mean {near[0]!r}?" if near else "")
