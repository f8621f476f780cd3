"""Modifies its input in place."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any


def transform(job: dict[str, Any]) -> dict[str, Any]:
    """Copy the model, then append to the original."""
    shutil.copytree(job["input"]["path"], job["output"], dirs_exist_ok=True)
    weights = Path(job["input"]["path"]) / "weights.npz"
    weights.chmod(0o644)
    with weights.open("ab") as stream:
        stream.write(b"more")
    return {}
