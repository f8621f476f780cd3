"""TVM's own code: compile ONNX for each shape with tuned schedules, and run the result."""

from __future__ import annotations

from typing import Any

from . import session

load, describe = session.open_model, session.describe


def transform(job: dict[str, Any]) -> dict[str, Any]:
    """Write ``index.json`` and a library for each of the recipe's shapes."""
    from . import compilation  # takes seconds, and loading a winner does not need it

    return compilation.compile_model(job)
