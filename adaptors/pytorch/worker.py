"""PyTorch: export, quantize, compile and run models. Its parts lie beside it in ``worker_*.py``.

Run by path with the environment's python; imports nothing of kedro-hone.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any


def _use_temporary(job: dict[str, Any]) -> None:
    """Keep what Inductor compiles in the job's own folder, unless the host chose another."""
    if job.get("temporary"):
        os.environ.setdefault("TORCHINDUCTOR_CACHE_DIR", str(Path(job["temporary"]) / "inductor"))


def transform(job: dict[str, Any]) -> dict[str, Any] | None:
    """Make ``job["output"]`` from ``job["input"]`` as ``job["adaptor"]`` says."""
    _use_temporary(job)
    from . import worker_compilers, worker_steps, worker_torchscript

    steps = {**worker_steps.STEPS, **worker_compilers.STEPS, **worker_torchscript.STEPS}
    return steps[job["adaptor"]](job)


def describe(job: dict[str, Any]) -> dict[str, Any] | None:
    """Return the specs of a saved model of one of PyTorch's formats."""
    _use_temporary(job)
    from . import worker_jobs

    return worker_jobs.describe(job)


def load(job: dict[str, Any]) -> Any:
    """Return a session on ``job["input"]``."""
    _use_temporary(job)
    from . import worker_session

    return worker_session.open_session(job)
