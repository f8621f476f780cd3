"""The estimators within an estimator."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

_OF_PREDICTIONS = {
    "FixedThresholdClassifier": "estimator_",
    "SelfTrainingClassifier": "estimator_",
    "TransformedTargetRegressor": "regressor_",
    "TunedThresholdClassifierCV": "estimator_",
}
"""The classes of scikit-learn that only change an estimator's predictions, and their attribute with the estimator."""


def get(estimator: Any, name: str) -> Any:
    """Return an attribute; None if absent, or if it raises, as computed attributes may."""
    try:
        return getattr(estimator, name)
    except Exception:  # noqa: BLE001 - NotFittedError and others
        return None


def find_last(estimator: Any) -> Any:
    """Return the last step of a pipeline, at any depth, or the estimator itself."""
    return _walk(estimator, unwrap, lambda steps: steps[-1])


def find_first(estimator: Any) -> Any:
    """Return the step to which a pipeline passes its rows, at any depth, or the estimator itself."""
    return _walk(estimator, _open, lambda steps: steps[0])


def find_only(estimator: Any) -> Any:
    """Return the estimator inside single-step pipelines, and inside wrappers that pass their rows to it."""
    return _walk(estimator, _open, lambda steps: steps[0] if len(steps) == 1 else None)


def _walk(estimator: Any, open_: Callable[[Any], Any], choose: Callable[[list[Any]], Any]) -> Any:
    """Return the estimator after all chosen steps, opened before and after each; ``choose`` may return None to end."""
    estimator = open_(estimator)
    while (steps := _list_steps(estimator)) and (chosen := choose(steps)) is not None:
        estimator = open_(chosen)
    return estimator


def _list_steps(estimator: Any) -> list[Any]:
    """Return the steps of a pipeline, except disabled ones; empty for others."""
    return [step for _, step in get(estimator, "steps") or () if step is not None and not isinstance(step, str)]


def unwrap(estimator: Any) -> Any:
    """Return the estimator that predicts in place of another one: a search's best one, or a frozen one."""
    while (found := get(estimator, "best_estimator_") or _thaw(estimator)) is not None:
        estimator = found
    return estimator


def _open(estimator: Any) -> Any:
    """Return the estimator to which another one passes its rows unchanged, even if it changes the predictions."""
    while (found := _find_within(estimator := unwrap(estimator))) is not None:
        estimator = found
    return estimator


def _find_within(estimator: Any) -> Any:
    """Return the fitted estimator of one that only changes predictions; None for others."""
    if name := _OF_PREDICTIONS.get(type(estimator).__name__):
        return get(estimator, name)
    calibrated = get(estimator, "calibrated_classifiers_")
    return calibrated[0].estimator if calibrated else None


def _thaw(estimator: Any) -> Any:
    return get(estimator, "estimator") if type(estimator).__name__ == "FrozenEstimator" else None


def is_composed(estimator: Any) -> bool:
    """Return whether an estimator only calls its parts: a pipeline, or parallel steps."""
    listed = hasattr(estimator, "steps") or hasattr(estimator, "transformer_list")
    return listed or chooses_columns(estimator) or _thaw(estimator) is not None


def chooses_columns(estimator: Any) -> bool:
    """Return whether an estimator passes some columns to each of its parts."""
    return hasattr(estimator, "sparse_threshold") and hasattr(estimator, "transformers")


def list_parts(estimator: Any) -> Iterator[tuple[str, Any]]:
    """Yield the fitted estimators within one, with their names; of equal ones the first of each class."""
    for name, part in _list_all(estimator):
        if part is not None and not isinstance(part, str):
            yield name, part


def _list_all(estimator: Any) -> Iterator[tuple[str, Any]]:
    if chooses_columns(estimator):
        yield from ((name, part) for name, part, *_ in get(estimator, "transformers_") or ())
    yield from get(estimator, "steps") or get(estimator, "transformer_list") or ()
    yield "best_estimator_", get(estimator, "best_estimator_")
    yield "estimator", _thaw(estimator)
    yield "final_estimator_", get(estimator, "final_estimator_")
    if named := get(estimator, "named_estimators_"):
        yield from named.items()
    for name in ("calibrated_classifiers_", "estimators_"):
        alike = get(estimator, name)
        if isinstance(alike, list) and not named:
            first = {type(one): one for one in reversed(alike)}
            yield from ((name, getattr(one, "estimator", one)) for one in first.values())
