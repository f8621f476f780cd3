"""Leaves a file next to its output directory."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any


def transform(job: dict[str, Any]) -> dict[str, Any]:
    """Copy the model, and write outside the output directory."""
    shutil.copytree(job["input"]["path"], job["output"], dirs_exist_ok=True)
    (Path(job["input"]["path"]).parent / "outside.txt").write_text("here I was")
    return {}
