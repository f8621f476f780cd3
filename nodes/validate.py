"""Validate each candidate before the race, by ``kedro_hone.search.validation.validation``."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from hone_runtime.values.artifact import Artifact
from hone_runtime.values.base import Json
from hone_runtime.values.composite import COMPOSITE
from hone_runtime.values.measurement import Validation
from hone_runtime.values.outcome import Candidate, Outcome
from hone_runtime.values.samples import Reference
from kedro_hone.search.context import RunContext
from kedro_hone.search.plan.forecast import UNKNOWN, Forecast
from kedro_hone.search.validation.validation import validate_candidate


def validate(
    *,
    context: RunContext,
    outcome: Outcome,
    reference: Reference,
    forecast: Forecast = UNKNOWN,
    candidate: str,
    route: tuple[str, ...],
    options: Mapping[str, Mapping[str, Json]] = MappingProxyType({}),
) -> Validation:
    """Check the outcome of one candidate's route; if a candidate may not race, the validation contains the reason.

    A composite has the routes of its parts, one after the other. ``options`` are, by adaptor, those with several values
    in the recipe.
    """
    if isinstance(outcome, Artifact) and outcome.format == COMPOSITE:
        route = tuple(step.adaptor for step in outcome.steps)
    named = Candidate(id=candidate, route=route, outcome=outcome, options={k: dict(v) for k, v in options.items()})
    expected = forecast.find_validation(route[-1]) if route else None
    return validate_candidate(named, context, reference=reference, expected=expected)
