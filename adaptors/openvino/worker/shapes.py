"""An IR that is compiled again for each shape that a recipe names.

OpenVINO plans a graph of fixed dimensions once, when it is compiled, and one of dynamic dimensions at its calls.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from hone_loading import load_part

from . import session

shapes = load_part("shapes")

SHAPES = "compiled_shapes"
"""Where an artifact's metadata name them: sizes of dimensions by name, for each shape."""

MOST_SHAPES = 8
MOST_BYTES = 128 << 20
"""Of weights, which each compiled graph holds again; in larger models the planning is a small part of a call."""

Json = dict[str, Any]


def open_session(job: Json) -> Any:
    """Open the job's IR as ``session.open_session`` does, and again for each shape that its metadata name.

    Raises:
        ValueError: As there; or the metadata name too many shapes, or what is none.
    """
    dynamic = session.open_session(job)
    noted, inputs = job["input"].get("metadata", {}).get(SHAPES, []), job["input"].get("inputs", [])
    if not isinstance(noted, list) or len(noted) > MOST_SHAPES:
        raise ValueError(f"{SHAPES} is no list of at most {MOST_SHAPES} shapes: {str(noted)[:200]}")
    if not noted:
        return dynamic
    names = [spec["name"] for spec in inputs]
    keys = [shapes.require_shapes(inputs, sizes) for sizes in noted]
    fixed = {key: session.open_session(job, dict(zip(names, key, strict=True))) for key in keys}
    return shapes.ShapedSession(dynamic, fixed, names)


def choose(job: Json) -> list[dict[str, int]]:
    """Return the recipe's shapes for which the input of a job can be compiled; none where that does not pay.

    A cache of keys and values grows, so its graph stays dynamic.
    """
    model = job["input"]
    light = Path(model["path"], "model.bin").stat().st_size <= MOST_BYTES
    if not job["options"]["fixed_shapes"] or not light or "cache" in model.get("metadata", {}):
        return []
    sizes = [dict(shape["sizes"]) for shape in job["shapes"]]
    distinct = {key: each for each in sizes if (key := shapes.find_shapes(model["inputs"], each)) is not None}
    names = [spec["name"] for spec in model["inputs"]]
    return [each for key, each in [*distinct.items()][:MOST_SHAPES] if _fits(job, dict(zip(names, key, strict=True)))]


def _fits(job: Json, given: Mapping[str, Sequence[int]]) -> bool:
    """Return whether the graph can be compiled for these shapes: a reshaping in it may be made for others."""
    try:
        session.open_session(job, given)
    except ValueError as error:
        print(f"not compiled for {dict(given)}: {error}")  # noqa: T201 - the step's log
        return False
    return True
