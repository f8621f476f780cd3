"""PyTorch: export, quantize, compile and run models.

Run by path with the environment's python; imports nothing of kedro-hone.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any


def transform(job: dict[str, Any]) -> dict[str, Any]:
    """Make ``job["output"]`` from ``job["input"]`` as ``job["adaptor"]`` says; a class only where it is trusted."""
    from . import compilers, models, steps, torchscript

    if job["input"]["format"] == "pytorch-module" and "module" not in job["trust"]:
        name = models.read_reference(Path(job["input"]["path"]))["class"]
        return {"refused": f"{name} is code; 'trust: [module]' would allow it"}
    table = {
        "pytorch.export": steps.export,
        "pytorch.onnx": steps.to_onnx,
        "pytorch.pt2e-int8": steps.quantize,
        "pytorch.torchscript": torchscript.trace,
        "pytorch.compile": compilers.copy,
        "pytorch.compile-exported": compilers.copy,
        "pytorch.aoti": compilers.compile_ahead,
        "pytorch.aoti-bf16": compilers.compile_ahead,
    }
    return table[job["adaptor"]](job)


def describe(job: dict[str, Any]) -> dict[str, Any] | None:
    """Return the specs of a saved model of one of PyTorch's formats."""
    from . import jobs

    return jobs.describe(job)


def load(job: dict[str, Any]) -> Any:
    """Return a session on ``job["input"]``."""
    from . import session

    return session.open_session(job)
