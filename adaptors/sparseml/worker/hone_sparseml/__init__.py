"""SparseML 1.8: prune an exported program by its recipes, and train it between the steps."""

from __future__ import annotations

import os
from typing import Any

import hone_pytorch

describe = hone_pytorch.describe


def transform(job: dict[str, Any]) -> dict[str, Any]:
    """Write the pruned ``model.pt2`` into the job's output, and return notes."""
    os.chdir(job["temporary"])  # SparseML writes its logs into the current folder
    from . import pruning  # slow to import

    return pruning.transform(job)
