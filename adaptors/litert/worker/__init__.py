"""LiteRT's own code: quantize what its converters made, and run it."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

from . import session

load, describe = session.open_model, session.describe


def transform(job: dict[str, Any]) -> dict[str, Any]:
    """Make ``job["output"]`` from ``job["input"]`` as ``job["adaptor"]`` says."""
    if job["adaptor"] == "litert.xnnpack":
        parts = max(model.count_parts() for model in session.open_model(job).fixed.values())
        shutil.copytree(job["input"]["path"], job["output"], dirs_exist_ok=True)
        return {"metadata": {"xnnpack_parts": parts}}
    from . import quantization  # seconds, and a process that loads a winner does not have it

    return quantization.quantize(job, Path(job["output"]))
