"""Makes a different model each time."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import Any


def transform(job: dict[str, Any]) -> dict[str, Any]:
    """Copy the model, with noise that is not seeded."""
    shutil.copytree(job["input"]["path"], job["output"], dirs_exist_ok=True)
    (Path(job["output"]) / "noise.bin").write_bytes(os.urandom(16))
    return {}
