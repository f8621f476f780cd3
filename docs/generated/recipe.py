"""The recipe's keys, from its models."""

from __future__ import annotations

import types
from typing import Any, get_args, get_origin

from pydantic import BaseModel

from generated.models import describe_default, describe_value, make_table
from hone_runtime.values.base import Value
from kedro_hone.core.gates import read_gates
from kedro_hone.recipe.gates import GatesSection, compose_gates
from kedro_hone.recipe.schema import Recipe


def describe_keys() -> str:
    """Return a table for each section of the recipe, the top level first."""
    parts = [make_table(_list_keys(Recipe), "key", "takes", "default", "meaning")]
    for name, model in find_sections().items():
        parts.append(
            f"## {name}\n\n{model.__doc__}\n\n{make_table(_list_keys(model), 'key', 'takes', 'default', 'meaning')}"
        )
    return "\n\n".join(parts)


def find_sections() -> dict[str, type[BaseModel]]:
    """Return the sections of the recipe by their key."""
    found: dict[str, type[BaseModel]] = {}
    for name, field in Recipe.model_fields.items():
        for kind in (field.annotation, *get_args(field.annotation)):
            if isinstance(kind, type) and get_origin(kind) is None and issubclass(kind, Value):
                whole = compose_gates(read_gates()) if kind is GatesSection else kind
                found[name if kind is field.annotation else f"{name}.NAME"] = whole
    return found


def _list_keys(model: type[BaseModel]) -> list[tuple[str, str, str, str]]:
    schema = model.model_json_schema(mode="validation")
    rows = []
    for name, field in model.model_fields.items():
        if _is_section(field.annotation):
            rows.append((f"[`{name}`](#{name})", "section", "", (field.annotation.__doc__ or "").split("\n")[0]))
            continue
        part = _resolve(schema["properties"][name], schema)
        default = "**required**" if field.is_required() else describe_default(part)
        rows.append((f"`{name}`", describe_value(part), default, field.description or ""))
    return rows


def _is_section(kind: Any) -> bool:
    return isinstance(kind, type) and not isinstance(kind, types.GenericAlias) and issubclass(kind, Value)


def _resolve(part: dict[str, Any], schema: dict[str, Any]) -> dict[str, Any]:
    """Replace a reference by the schema of its model, one level deep."""
    if "$ref" in part:
        return dict(schema["$defs"][part["$ref"].rpartition("/")[2]])
    return part
