"""OpenVINO and NNCF: convert, quantize and run models as IR.

Run by path with the python of the toolchain's environment; imports the standard library, numpy, the toolchain and our
loader only. Every function raises ValueError where the files cannot be read, or this CPU lacks the precision asked for.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from . import session

load = session.open_session


def transform(job: dict[str, Any]) -> dict[str, Any]:
    """Write ``model.xml`` and ``model.bin`` into the job's output as its adaptor demands, and return notes."""
    from . import steps

    return steps.STEPS[job["adaptor"]](job, Path(job["output"]))


def describe(job: dict[str, Any]) -> dict[str, Any]:
    """Return the inputs, the outputs and the digest of the graph of ``model.xml``."""
    from . import graphs

    return graphs.describe(job["input"]["path"])
