"""Makes a model that always returns one row, whatever the batch size."""

from __future__ import annotations

import shutil
from typing import Any

import numpy as np


def transform(job: dict[str, Any]) -> dict[str, Any]:
    """Copy the model."""
    shutil.copytree(job["input"]["path"], job["output"], dirs_exist_ok=True)
    return {}


class Session:
    """Was compiled for one row and does not say so."""

    def run(self, feeds: dict[str, Any]) -> dict[str, Any]:
        """Return one row."""
        del feeds
        return {"y": np.zeros((1, 3), np.float32)}


def load(job: dict[str, Any]) -> Session:
    """Open nothing."""
    del job
    return Session()
