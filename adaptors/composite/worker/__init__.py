"""Composites: open the parts with the workers of their own toolchains, and pass each call to the part of its shapes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from hone_loading import load_part, load_worker

shapes = load_part("shapes")

RUNS = {"onnxruntime": "onnx", "openvino": "openvino-ir"}
"""The runtimes that a part may have, and the format of each: a manifest may be a stranger's, and these run no code."""

MOST_PARTS = 16
MOST_SHAPES = 64


def load(job: dict[str, Any]) -> Any:
    """Open the parts in ``parts/``, in the order of the metadata; the first is for every shape that no part names.

    Raises:
        ValueError: The metadata name no parts, or parts of another runtime or format, or sizes of no shape; or as the
            part's own toolchain.
    """
    model = job["input"]
    parts = model["metadata"].get("parts")
    if not isinstance(parts, list) or not 0 < len(parts) <= MOST_PARTS:
        raise ValueError(f"the metadata of a composite do not name 1 to {MOST_PARTS} parts")
    opened = [_open(job, part, Path(model["path"], "parts", str(number))) for number, part in enumerate(parts)]
    served = [(session, [*part["shapes"].values()]) for session, part in zip(opened, parts, strict=True)]
    keys = [(shapes.require_shapes(model["inputs"], sizes), session) for session, rows in served for sizes in rows]
    fixed = {key: _find(session, key) for key, session in keys}
    if len(fixed) < len(keys) or len(keys) > MOST_SHAPES:
        raise ValueError(f"the parts serve a shape of the inputs twice, or more than {MOST_SHAPES}")
    return shapes.ShapedSession(opened[0], fixed, [spec["name"] for spec in model["inputs"]], parts=opened)


def _find(session: Any, key: tuple[tuple[int, ...], ...]) -> Any:
    """Return the session of a part that computes calls of these shapes, so that they are not looked up twice."""
    return session.find(key) if isinstance(session, shapes.ShapedSession) else session


def _open(job: dict[str, Any], part: dict[str, Any], folder: Path) -> Any:
    runtime = part.get("runtime")
    if RUNS.get(str(runtime)) != part.get("format") or not isinstance(part.get("shapes"), dict):
        raise ValueError(f"a part of the format {part.get('format')!r:.80} for {runtime!r:.80}: a composite has none")
    worker = Path(__file__).resolve().parents[2] / str(runtime) / "worker" / "__init__.py"
    own = {"run_options": part.get("run_options", {}), "metadata": _leave_out_shapes(part)}
    given = {**job["input"], **own, "path": str(folder), "format": part["format"], "static_shapes": []}
    own_job = {**job, "worker": str(worker), "input": given, "shares_cores": True}
    return load_worker(f"hone_part_{runtime}", str(worker)).load(own_job)


def _leave_out_shapes(part: dict[str, Any]) -> Any:
    """Return the metadata of a part without the compiled shapes that other parts serve, whose memory it spares."""
    metadata, served = part.get("metadata", {}), [*part["shapes"].values()]
    noted = metadata.get(shapes.SHAPES) if isinstance(metadata, dict) else None
    if not isinstance(noted, list):
        return metadata
    return {**metadata, shapes.SHAPES: [sizes for sizes in noted if sizes in served]}
