"""ONNX Runtime: optimize, quantize and run ONNX models.

Every function raises ValueError if the file cannot be read, or its external data is outside its folder.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from . import session

load = session.load


def transform(job: dict[str, Any]) -> dict[str, Any]:
    """Write ``model.onnx`` into the job's output by the job's adaptor, and return notes.

    The notes state it if the input's cache of keys and values is lost, or is wrong.
    """
    notes = _transform(job)
    if session.is_cached(job) and not {"refused", "nothing_to_do", "failed"}.intersection(notes):
        from . import cached, graphs

        if not cached.list_cache(graphs.read_graph(Path(job["output"]))):
            lost = {"absent": f"{job['adaptor']} does not keep it"}
            return {**notes, "metadata": {**notes.get("metadata", {}), "cache": lost}}
    return notes


def _transform(job: dict[str, Any]) -> dict[str, Any]:
    if job["adaptor"] == "onnxruntime.session":
        return session.save_rewritten(job)
    if job["adaptor"] == "onnxruntime.fused":
        from . import fusion

        return fusion.transform(job)
    if job["adaptor"] == "onnxruntime.int8-tuned":
        from . import tuning

        return tuning.transform(job)
    from . import quantization  # slow to import

    return quantization.transform(job)


def describe(job: dict[str, Any]) -> dict[str, Any]:
    """Return the result of ``graphs.describe`` for ``model.onnx``."""
    from . import graphs  # a session does not need onnx

    return graphs.describe(job)
