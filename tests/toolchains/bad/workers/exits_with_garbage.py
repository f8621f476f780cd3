"""Exits with code 0 and a reply that cannot be read."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any


def transform(job: dict[str, Any]) -> None:
    """Write garbage as the model and as the reply, and exit with code 0."""
    (Path(job["output"]) / "weights.npz").write_bytes(b"garbage")
    (Path(sys.argv[1]) / "result.json").write_text("[garbage")
    os._exit(0)
