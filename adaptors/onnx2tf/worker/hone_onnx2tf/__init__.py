"""onnx2tf's own code: convert an ONNX model for each shape, and check each file's function against ONNX Runtime."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from hone_runtime.worker.loading import load_worker

Json = dict[str, Any]

_LITERT = Path(__file__).resolve().parents[2] / "litert" / "worker" / "__init__.py"


def transform(job: Json) -> Json:
    """Write ``index.json`` and a file for each of the recipe's shapes."""
    from . import conversion  # slow to import

    return conversion.transform(job, load_worker("hone_used_litert", str(_LITERT)).session)


def describe(job: Json) -> Json:
    """Return the specs of what was written, as LiteRT finds them."""
    described: Json = load_worker("hone_used_litert", str(_LITERT)).describe(job)
    return described
