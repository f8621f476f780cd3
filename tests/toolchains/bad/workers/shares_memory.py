"""Makes a model whose calls share the memory of their input."""

from __future__ import annotations

import shutil
import time
from typing import Any


def transform(job: dict[str, Any]) -> dict[str, Any]:
    """Copy the model."""
    shutil.copytree(job["input"]["path"], job["output"], dirs_exist_ok=True)
    return {}


class Session:
    """Keeps its input while it computes."""

    def run(self, feeds: dict[str, Any]) -> dict[str, Any]:
        """Return its input's first columns, after a while."""
        self._input = feeds["x"]
        time.sleep(0.001)
        return {"y": self._input[:, :3].copy()}


def load(job: dict[str, Any]) -> Session:
    """Open nothing."""
    del job
    return Session()
