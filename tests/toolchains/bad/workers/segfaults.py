"""Crashes in native code."""

from __future__ import annotations

import ctypes
from typing import Any


def transform(job: dict[str, Any]) -> None:
    """Read address zero."""
    del job
    ctypes.string_at(0)
