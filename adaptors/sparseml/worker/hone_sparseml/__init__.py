"""SparseML 1.8: prune an exported program by its recipes, and train it between the steps."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from hone_runtime.worker.loading import load_worker

_PYTORCH = load_worker("hone_part_pytorch", str(Path(__file__).resolve().parents[2] / "pytorch/worker/__init__.py"))

describe = _PYTORCH.describe


def transform(job: dict[str, Any]) -> dict[str, Any]:
    """Write the pruned ``model.pt2`` into the job's output, and return notes."""
    os.chdir(job["temporary"])  # SparseML writes its logs where it is
    from . import pruning  # slow to import

    return pruning.transform(job)
