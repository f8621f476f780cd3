"""Make networks smaller and train them to return the same, as programs of PyTorch."""

from __future__ import annotations

from typing import Any

import hone_pytorch

describe = hone_pytorch.describe


def transform(job: dict[str, Any]) -> dict[str, Any]:
    """Write the compressed ``model.pt2`` into the job's output, and return notes."""
    from . import steps  # slow to import

    return steps.STEPS[job["adaptor"]](job)
