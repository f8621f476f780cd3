"""Writes another format than it declares."""

from __future__ import annotations

from pathlib import Path
from typing import Any


def transform(job: dict[str, Any]) -> dict[str, Any]:
    """Write a file of another format."""
    (Path(job["output"]) / "model.onnx").write_bytes(b"not even this")
    return {}
