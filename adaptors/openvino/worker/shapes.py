"""An IR that is compiled again for each shape that a recipe names.

OpenVINO plans a graph of fixed dimensions once, when it is compiled, and one of dynamic dimensions at its calls.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from . import session

SHAPES = "compiled_shapes"
"""Where an artifact's metadata name them: sizes of dimensions by name, for each shape."""

MOST_SHAPES = 8
MOST_BYTES = 128 << 20
"""Of weights, which each compiled graph holds again; in larger models the planning is a small part of a call."""

Json = dict[str, Any]
Key = tuple[tuple[int, ...], ...]


class ShapedSession:
    """A graph for each of some shapes of the inputs, and one for all others; a call is of the graph of its shapes."""

    has_cache = False

    def __init__(self, dynamic: session.Session, fixed: Mapping[Key, session.Session], names: Sequence[str]) -> None:
        """Take the graphs, those of fixed shapes by the shapes of the inputs of these names."""
        self._dynamic, self._fixed, self._names = dynamic, fixed, tuple(names)

    def run(self, feeds: session.Arrays) -> session.Arrays:
        """Return every output by name, for inputs by name."""
        key = tuple([feeds[name].shape for name in self._names])
        return self._fixed.get(key, self._dynamic).run(feeds)


def open_session(job: Json) -> session.Session | ShapedSession:
    """Open the job's IR as ``session.open_session`` does, and again for each shape that its metadata name.

    Raises:
        ValueError: As there; or the metadata name too many shapes, or what is none.
    """
    dynamic, keys = session.open_session(job), read_shapes(job)
    if not keys:
        return dynamic
    names = [spec["name"] for spec in job["input"]["inputs"]]
    fixed = {key: session.open_session(job, dict(zip(names, key, strict=True))) for key in keys}
    return ShapedSession(dynamic, fixed, names)


def choose(job: Json) -> list[dict[str, int]]:
    """Return the recipe's shapes for which the input of a job can be compiled; none where that does not pay.

    A cache of keys and values grows, so its graph stays dynamic.
    """
    model = job["input"]
    light = Path(model["path"], "model.bin").stat().st_size <= MOST_BYTES
    if not job["options"]["fixed_shapes"] or not light or "cache" in model.get("metadata", {}):
        return []
    sizes = [dict(shape["sizes"]) for shape in job["shapes"]]
    distinct = {key: each for each in sizes if (key := _resolve(model, each)) is not None}
    names = [spec["name"] for spec in model["inputs"]]
    return [each for key, each in [*distinct.items()][:MOST_SHAPES] if _fits(job, dict(zip(names, key, strict=True)))]


def read_shapes(job: Json) -> list[Key]:
    """Return the shapes of the inputs, in their order, that the metadata of a job's input name.

    Raises:
        ValueError: They are too many, or no sizes of the inputs' dimensions.
    """
    noted = job["input"].get("metadata", {}).get(SHAPES, [])
    if not isinstance(noted, list) or len(noted) > MOST_SHAPES:
        raise ValueError(f"{SHAPES} is no list of at most {MOST_SHAPES} shapes: {str(noted)[:200]}")
    keys = []
    for sizes in noted:
        key = _resolve(job["input"], sizes) if _is_sizes(sizes) else None
        if key is None:
            raise ValueError(f"{SHAPES} holds what is no shape of the inputs: {str(sizes)[:200]}")
        keys.append(key)
    return keys


def _fits(job: Json, shapes: Mapping[str, Sequence[int]]) -> bool:
    """Return whether the graph can be compiled for these shapes: a reshaping in it may be made for others."""
    try:
        session.open_session(job, shapes)
    except ValueError as error:
        print(f"not compiled for {dict(shapes)}: {error}")  # noqa: T201 - the step's log
        return False
    return True


def _is_sizes(given: Any) -> bool:
    return isinstance(given, dict) and all(type(size) is int and 0 < size < 1 << 31 for size in given.values())


def _resolve(model: Json, sizes: Mapping[str, int]) -> Key | None:
    """Return the shapes of the inputs at these sizes; None where a dimension has none, or none is dynamic."""
    shapes: list[Sequence[int | str]] = [spec["shape"] for spec in model["inputs"]]
    names = {dim for shape in shapes for dim in shape if isinstance(dim, str)}
    if not names or not names <= sizes.keys():
        return None
    return tuple(tuple(sizes[dim] if isinstance(dim, str) else dim for dim in shape) for shape in shapes)
