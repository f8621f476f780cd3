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
    fixed = dict(keys)
    if len(fixed) < len(keys) or len(keys) > MOST_SHAPES:
        raise ValueError(f"the parts serve a shape of the inputs twice, or more than {MOST_SHAPES}")
    return shapes.ShapedSession(opened[0], fixed, [spec["name"] for spec in model["inputs"]], parts=opened)


def _open(job: dict[str, Any], part: dict[str, Any], folder: Path) -> Any:
    runtime = part.get("runtime")
    if RUNS.get(str(runtime)) != part.get("format") or not isinstance(part.get("shapes"), dict):
        raise ValueError(f"a part of the format {part.get('format')!r:.80} for {runtime!r:.80}: a composite has none")
    worker = Path(__file__).resolve().parents[2] / str(runtime) / "worker" / "__init__.py"
    own = {name: part.get(name, {}) for name in ("run_options", "metadata")}
    given = {**job["input"], **own, "path": str(folder), "format": part["format"], "static_shapes": []}
    own_job = {**job, "worker": str(worker), "input": given, "shares_cores": True}
    return load_worker(f"hone_part_{runtime}", str(worker)).load(own_job)
