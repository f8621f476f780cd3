"""Optimization profiles from a recipe's shapes, and the index of an engine; standard library only.

Each shape has its own profile with equal smallest, optimal and largest sizes: kernels are selected for it.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

Json = dict[str, Any]
Shapes = tuple[tuple[int, ...], ...]

INDEX, PLAN, TIMING = "index.json", "model.plan", "timing.cache"
"""The files of an engine's folder: its specs, the engine, and the kernel times measured during its build."""

_FIELDS = {"name", "dtype", "shape"}


def find_profiles(inputs: list[Json], shapes: list[Json]) -> list[Shapes]:
    """Return each profile's shapes of the inputs, in the inputs' order; without duplicates.

    Args:
        inputs: The specs of the inputs; dynamic dimensions have names.
        shapes: The recipe's shapes, each with ``name`` and ``sizes`` by dimension name.

    Raises:
        ValueError: A shape lacks a positive size for a dimension; or there is no shape.
    """
    found = list(dict.fromkeys(tuple(_size(spec, shape) for spec in inputs) for shape in shapes))
    if not found:
        raise ValueError("there are no shapes to build an engine for")
    return found


def _size(spec: Json, shape: Json) -> tuple[int, ...]:
    sizes = tuple(shape["sizes"].get(dim) if isinstance(dim, str) else dim for dim in spec["shape"])
    for dim, size in zip(spec["shape"], sizes, strict=True):
        if type(size) is not int or size < 1:
            raise ValueError(f"the shape {shape['name']!r} gives the dimension {dim!r} of {spec['name']!r} no size")
    return sizes


def write_index(folder: Path, artifact: Json, profiles: list[Shapes]) -> None:
    """Save the specs of an engine and the shapes of its profiles."""
    sides = {side: [{key: spec[key] for key in _FIELDS} for spec in artifact[side]] for side in ("inputs", "outputs")}
    (folder / INDEX).write_text(json.dumps({**sides, "profiles": profiles}, indent=1, sort_keys=True))


def read_index(folder: Path) -> Json:
    """Return the specs of an engine (``inputs``, ``outputs``) and the shapes of its ``profiles``.

    Raises:
        ValueError: The index is missing or invalid.
    """
    try:
        read = json.loads((folder / INDEX).read_text())
        sides = {side: [{key: spec[key] for key in _FIELDS} for spec in read[side]] for side in ("inputs", "outputs")}
        profiles = [tuple(tuple(map(int, shape)) for shape in profile) for profile in read["profiles"]]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise ValueError(f"{INDEX} cannot be read: {type(error).__name__}: {error}") from error
    if not profiles or any(len(profile) != len(sides["inputs"]) for profile in profiles):
        raise ValueError(f"{INDEX} has profiles that do not fit its inputs")
    return {**sides, "profiles": profiles}
