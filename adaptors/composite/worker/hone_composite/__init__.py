"""Composites: open the parts with their toolchains' workers, and pass each call to the part for its shapes."""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import Any

from hone_runtime.sessions import shapes

RUNS = {"onnxruntime": "onnx", "openvino": "openvino-ir"}
"""The allowed runtimes of parts, with the format of each: a manifest may be untrusted, and these run no code of an
author."""

MOST_PARTS = 16
MOST_SHAPES = 64


def load(job: dict[str, Any]) -> Any:
    """Open the parts in ``parts/``, in the order of the metadata; the first serves every shape that no part lists.

    Raises:
        ValueError: The metadata have no parts, parts of another runtime or format, or invalid sizes; or as in the
            part's own toolchain.
    """
    model = job["input"]
    parts = model["metadata"].get("parts")
    if not isinstance(parts, list) or not 0 < len(parts) <= MOST_PARTS:
        raise ValueError(f"the metadata of a composite do not name 1 to {MOST_PARTS} parts")
    for part in parts:
        _check(part)
    if sum(len(part["shapes"]) for part in parts) > MOST_SHAPES:
        raise ValueError(f"the parts serve more than {MOST_SHAPES} shapes of the inputs")
    opened = [_open(job, part, Path(model["path"], "parts", str(number))) for number, part in enumerate(parts)]
    served = [(session, [*part["shapes"].values()]) for session, part in zip(opened, parts, strict=True)]
    keys = [(shapes.require_shapes(model["inputs"], sizes), session) for session, rows in served for sizes in rows]
    fixed = {key: _find_session(session, key) for key, session in keys}
    if len(fixed) < len(keys):
        raise ValueError("the parts serve a shape of the inputs twice")
    return shapes.ShapedSession(opened[0], fixed, [spec["name"] for spec in model["inputs"]], parts=opened)


def _check(part: dict[str, Any]) -> None:
    """Raise ``ValueError`` if a part has a format that is not allowed, or is compiled for too many shapes."""
    if RUNS.get(str(part.get("runtime"))) != part.get("format") or not isinstance(part.get("shapes"), dict):
        given = f"{part.get('format')!r:.80} for {part.get('runtime')!r:.80}"
        raise ValueError(f"a part of the format {given}: a composite has none")
    shapes.list_compiled(part)


def _open(job: dict[str, Any], part: dict[str, Any], folder: Path) -> Any:
    served = [*part["shapes"].values()]
    # Saves memory for shapes that other parts serve.
    compiled = [sizes for sizes in shapes.list_compiled(part) if sizes in served]
    own = {
        "run_options": part.get("run_options", {}),
        "metadata": {**part.get("metadata", {}), shapes.SHAPES: compiled},
    }
    given = {**job["input"], **own, "path": str(folder), "format": part["format"], "static_shapes": []}
    own_job = {**job, "input": given, "shares_cores": True}
    return importlib.import_module(f"hone_{part['runtime']}").load(own_job)


def _find_session(session: Any, key: tuple[tuple[int, ...], ...]) -> Any:
    """Return the part's session for these input shapes, so that they are not looked up twice."""
    return session.find(key) if isinstance(session, shapes.ShapedSession) else session
