"""Name the step of an estimator that cannot be converted."""

from __future__ import annotations

from types import TracebackType
from typing import Any

from . import parts

Json = dict[str, Any]


def find_unconvertible(estimator: Any, name: str = "") -> str:
    """Return the first step that has no converter, with its name, as a noun; empty where all have one."""
    from skl2onnx._supported_operators import sklearn_operator_name_map

    for step, part in parts.list_parts(estimator):
        if found := find_unconvertible(part, step):
            return found
    if parts.is_composed(estimator):
        return ""
    said = describe(estimator, name)
    if len(getattr(parts.get(estimator, "indicator_"), "features_", ())):
        return f"the indicators of missing values (add_indicator) of {said}"
    return "" if type(estimator) in sklearn_operator_name_map else said


def describe(estimator: Any, name: str) -> str:
    """Return a step's name and class, as a noun."""
    said = f"{type(estimator).__module__}.{type(estimator).__name__}"
    return f"the step {name!r}, {said}" if name else said


def explain(error: Exception, estimator: Any) -> Json:
    """Return a refusal by the name of the step that a converter raised for; a failure where that is not known."""
    reason = str(error).strip().splitlines()[0][:300] if str(error).strip() else type(error).__name__
    if (step := _find_operator(error.__traceback__)) is not None:
        return {"refused": f"{describe(step, _find_name(estimator, step))}, cannot be converted to ONNX: {reason}"}
    return {"failed": {"class": "convert", "reason": f"skl2onnx: {type(error).__name__}: {reason}"}}


def _find_operator(trace: TracebackType | None) -> Any:
    """Return the estimator of the innermost operator that was being converted; None if absent."""
    found = None
    while trace is not None:
        model = getattr(trace.tb_frame.f_locals.get("operator"), "raw_operator", None)
        found, trace = model if model is not None else found, trace.tb_next
    return found


def _find_name(estimator: Any, step: Any) -> str:
    """Return the name of the step that is this one, or of its class, since copies are converted; empty if absent."""
    for name, part in parts.list_parts(estimator):
        if part is step or type(part) is type(step):
            return name
        if found := _find_name(part, step):
            return found
    return ""
