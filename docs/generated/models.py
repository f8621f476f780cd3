"""Pydantic models as tables: keys, values, defaults and meanings."""

from __future__ import annotations

import inspect
import json
import re
from collections.abc import Sequence
from typing import Any

from pydantic import BaseModel

_NAMES = {"string": "text", "integer": "whole number", "number": "number", "boolean": "true or false", "object": "map"}
_ATTRIBUTE = re.compile(r"(\w+): (.*)")


def make_table(rows: Sequence[tuple[str, ...]], *header: str) -> str:
    """Return a Markdown table; a bar within a cell is escaped."""
    lines = [header, tuple("---" for _ in header), *rows]
    return "\n".join("| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |" for line in lines)


def describe_value(schema: dict[str, Any]) -> str:
    """Return a readable description of the values of a key.

    Args:
        schema: The JSON Schema of one property.

    Returns:
        Such as ``whole number, 17 to 24`` or ``minmax, entropy or percentile``.
    """
    if "anyOf" in schema:
        kinds = [describe_value(kind) for kind in schema["anyOf"] if kind.get("type") != "null"]
        return ", or ".join(kinds)
    if "const" in schema:
        return f"`{schema['const']}`"
    if "enum" in schema:
        *most, last = (f"`{value}`" for value in schema["enum"])
        return f"{', '.join(most)} or {last}" if most else last
    if schema.get("type") == "array":
        return f"list of {describe_value(schema.get('items', {}))}"
    return _NAMES.get(schema.get("type", ""), "values") + _describe_bounds(schema)


def _describe_bounds(schema: dict[str, Any]) -> str:
    low, high = schema.get("minimum"), schema.get("maximum")
    over, under = schema.get("exclusiveMinimum"), schema.get("exclusiveMaximum")
    if low is not None and high is not None:
        return f", {_describe_number(low)} to {_describe_number(high)}"
    bounds = [(over, "over"), (low, "at least"), (high, "at most"), (under, "under")]
    return "".join(f", {word} {_describe_number(bound)}" for bound, word in bounds if bound is not None)


def _describe_number(number: float) -> str:
    return f"{number:,}" if isinstance(number, int) else f"{number:,.10g}"


def describe_default(schema: dict[str, Any]) -> str:
    """Return a default, or an empty text if there is none."""
    default = schema.get("default")
    return "" if default in (None, [], {}) else f"`{json.dumps(default)}`".replace('"', "")


def read_attributes(model: type[BaseModel]) -> dict[str, str]:
    """Return the ``Attributes`` section of a model's docstring and of its base classes."""
    found: dict[str, str] = {}
    for parent in reversed(model.__mro__):
        section = (inspect.cleandoc(parent.__doc__ or "")).partition("Attributes:\n")[2]
        name = ""
        for line in section.splitlines():
            match = _ATTRIBUTE.match(line.removeprefix("    ")) if not line.startswith("     ") else None
            if match:
                name, text = match.groups()
                found[name] = text
            elif name and line.strip():
                found[name] += f" {line.strip()}"
    return {name: text.replace("``", "`") for name, text in found.items()}
