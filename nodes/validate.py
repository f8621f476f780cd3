"""Validate each candidate before the race; how is in ``kedro_hone.building.validation``."""

from __future__ import annotations

from kedro_hone.building.validation import validate_candidate
from kedro_hone.comparing.setting import Setting
from kedro_hone.core.values.artifact import Artifact
from kedro_hone.core.values.composite import COMPOSITE
from kedro_hone.core.values.measurement import Validation
from kedro_hone.core.values.outcome import Candidate, Outcome
from kedro_hone.core.values.samples import Reference


def validate(
    *, setting: Setting, outcome: Outcome, reference: Reference, candidate: str, route: tuple[str, ...]
) -> Validation:
    """Check the outcome of one candidate's route; for a candidate that may not race, the validation has the reason.

    A composite has the routes of its parts, one after the other.
    """
    if isinstance(outcome, Artifact) and outcome.format == COMPOSITE:
        route = tuple(step.adaptor for step in outcome.steps)
    return validate_candidate(Candidate(id=candidate, route=route, outcome=outcome), setting, reference=reference)
