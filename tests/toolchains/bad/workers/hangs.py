"""Never returns."""

from __future__ import annotations

import time
from typing import Any


def transform(job: dict[str, Any]) -> None:
    """Loop for ever."""
    while job:
        time.sleep(0.01)
