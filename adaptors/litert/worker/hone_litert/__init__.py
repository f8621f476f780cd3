"""LiteRT's own code: quantize converted models, and run them."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

from . import files, session


def load(job: dict[str, Any]) -> Any:
    """Return a session of a model with a file for each shape, or of its author's own file."""
    return files.Session(job) if job["input"]["format"] == files.FORMAT else session.open_model(job)


def describe(job: dict[str, Any]) -> dict[str, Any]:
    """Return the specs of a model with a file for each shape, or of its author's own file."""
    artifact = job["input"]
    return files.describe(artifact["path"]) if artifact["format"] == files.FORMAT else session.describe(job)


def transform(job: dict[str, Any]) -> dict[str, Any]:
    """Write ``job["output"]`` from ``job["input"]`` by the adaptor ``job["adaptor"]``."""
    if job["adaptor"] == "litert.shapes":
        return files.write_shapes(job, Path(job["output"]))
    if job["adaptor"] == "litert.xnnpack":
        parts = max(model.count_parts() for model in session.open_model(job).fixed.values())
        shutil.copytree(job["input"]["path"], job["output"], dirs_exist_ok=True)
        return {"metadata": {"xnnpack_parts": parts}}
    from . import quantization  # takes seconds, and is not installed where a winner is loaded

    return quantization.quantize(job, Path(job["output"]))
