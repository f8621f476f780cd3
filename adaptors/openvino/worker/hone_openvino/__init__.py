"""OpenVINO and NNCF: convert, quantize and run models as IR.

Every function raises ValueError if the files cannot be read, or this CPU lacks the requested precision.
"""

from __future__ import annotations

from typing import Any

from hone_runtime.sessions import shapes

from . import session, steps

describe, transform = session.describe, steps.transform


def load(job: dict[str, Any]) -> Any:
    """Open a job's IR as ``session.open_session`` does, and again for each shape in its metadata."""
    return shapes.open_shaped(job, session.open_session, weights=session.count_bytes(job["input"]["path"]))
