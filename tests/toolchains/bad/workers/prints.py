"""Prints 100 MB."""

from __future__ import annotations

import shutil
import sys
from typing import Any


def transform(job: dict[str, Any]) -> dict[str, Any]:
    """Copy the model, and print."""
    shutil.copytree(job["input"]["path"], job["output"], dirs_exist_ok=True)
    for _ in range(100):
        sys.stdout.write("x" * (1 << 20))
    return {}
