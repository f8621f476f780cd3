"""OpenVINO and NNCF: convert, quantize and run models as IR.

Every function raises ValueError where the files cannot be read, or this CPU lacks the precision asked for.
"""

from __future__ import annotations

from . import session, shapes, steps

load, describe, transform = shapes.open_session, session.describe, steps.transform
