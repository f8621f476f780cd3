"""OpenVINO and NNCF: convert, quantize and run models as IR.

Run by path with the python of the toolchain's environment; imports the standard library, numpy and the toolchain only.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

Job = dict[str, Any]
Notes = dict[str, Any]


def transform(job: Job) -> Notes:
    """Write ``model.xml`` and ``model.bin`` into the job's output as its adaptor demands, and return notes.

    Raises:
        KeyError: The adaptor is not this toolchain's.
        ValueError: The input cannot be read, or this CPU does not compute in the precision that was asked for.
    """
    from . import steps

    return steps.STEPS[job["adaptor"]](job, Path(job["input"]["path"]), Path(job["output"]))


def describe(job: Job) -> Notes | None:
    """Return the inputs, the outputs and the digest of the graph of ``model.xml``; None for another format.

    Raises:
        ValueError: The files cannot be read.
    """
    if job["input"]["format"] != "openvino-ir":
        return None
    from . import graphs

    return graphs.describe(Path(job["input"]["path"]))


def load(job: Job) -> Any:
    """Compile ``model.xml`` for the CPU; the run options are OpenVINO's own properties.

    Raises:
        ValueError: The files cannot be read, or this CPU does not compute in the precision that was asked for.
    """
    from . import session

    return session.open_session(job)
