"""OpenVINO and NNCF: convert, quantize and run models as IR.

Run by path with the python of the toolchain's environment; imports the standard library, numpy and the toolchain only.
Every function raises ValueError where the files cannot be read, or this CPU lacks the precision that was asked for.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any


def transform(job: dict[str, Any]) -> dict[str, Any]:
    """Write ``model.xml`` and ``model.bin`` into the job's output as its adaptor demands, and return notes."""
    from . import steps

    return steps.STEPS[job["adaptor"]](job, Path(job["input"]["path"]), Path(job["output"]))


def describe(job: dict[str, Any]) -> dict[str, Any] | None:
    """Return the inputs, the outputs and the digest of the graph of ``model.xml``; None for another format."""
    if job["input"]["format"] != "openvino-ir":
        return None
    from . import graphs

    return graphs.describe(Path(job["input"]["path"]))


def load(job: dict[str, Any]) -> Any:
    """Compile ``model.xml`` for the CPU; the run options are OpenVINO's own properties."""
    from . import session

    return session.open_session(job, job["input"].get("run_options", {}))
