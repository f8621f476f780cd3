"""Find and name the step of an estimator that cannot be converted."""

from __future__ import annotations

import traceback
from collections.abc import Callable
from typing import Any

from . import parts

Json = dict[str, Any]

_CONVERTERS = frozenset({"onnxmltools", "skl2onnx"})


def find_unconvertible(estimator: Any, name: str = "") -> str:
    """Return the first step that has no converter, with its name, as a noun; empty if all have one."""
    from skl2onnx._supported_operators import sklearn_operator_name_map

    for step, part in parts.list_parts(estimator):
        if found := find_unconvertible(part, step):
            return found
    if parts.is_composed(estimator):
        return ""
    noun = describe(estimator, name)
    if len(getattr(parts.get(estimator, "indicator_"), "features_", ())):
        return f"the indicators of missing values (add_indicator) of {noun}"
    return "" if type(estimator) in sklearn_operator_name_map else noun


def describe(estimator: Any, name: str) -> str:
    """Return a step's name and class, as a noun."""
    path = f"{type(estimator).__module__}.{type(estimator).__name__}"
    return f"the step {name!r}, {path}" if name else path


class StepError(Exception):
    """A step could not be converted; the cause is why.

    Attributes:
        step: The estimator that was being converted, or a copy of it.
    """

    def __init__(self, step: Any) -> None:
        super().__init__(type(step).__name__)
        self.step = step


def carry_steps(topology: type) -> None:
    """Make skl2onnx's topology raise ``StepError`` if the shapes or the nodes of a step cannot be computed."""
    for name in ("call_shape_calculator", "call_converter"):
        setattr(topology, name, _carry_step(getattr(topology, name)))


def _carry_step(call: Callable[..., None]) -> Callable[..., None]:
    def carried(topology: Any, operator: Any, *args: Any, **kwargs: Any) -> None:
        try:
            call(topology, operator, *args, **kwargs)
        except StepError:  # from a step within this one
            raise
        except Exception as error:
            raise StepError(operator.raw_operator) from error

    return carried


def explain(error: Exception, estimator: Any) -> Json:
    """Return a refusal with the name of the step that has no converter; a failure for any other exception."""
    step, cause = estimator, error
    if isinstance(error, StepError) and isinstance(error.__cause__, Exception):
        step, cause = error.step, error.__cause__
    reason = str(cause).strip().splitlines()[0][:300] if str(cause).strip() else type(cause).__name__
    noun = describe(step, _find_name(estimator, step))
    if _is_refusal(cause):
        return {"refused": f"{noun}, cannot be converted to ONNX: {reason}"}
    return {"failed": {"class": "convert", "reason": f"{noun}: {type(cause).__name__}: {reason}"}}


def _is_refusal(error: Exception) -> bool:
    """Return whether a converter raised an error deliberately: skl2onnx and onnxmltools raise RuntimeError for most."""
    if isinstance(error, NotImplementedError):
        return True
    where = [frame.f_globals.get("__name__", "") for frame, _ in traceback.walk_tb(error.__traceback__)]
    theirs = bool(where) and where[-1].partition(".")[0] in _CONVERTERS
    return theirs and (type(error) is RuntimeError or type(error).__module__.partition(".")[0] in _CONVERTERS)


def _find_name(estimator: Any, step: Any) -> str:
    """Return the name of this step, or of one of its class, since copies are converted; empty if absent."""
    for name, part in parts.list_parts(estimator):
        if part is step or type(part) is type(step):
            return name
        if found := _find_name(part, step):
            return found
    return ""
