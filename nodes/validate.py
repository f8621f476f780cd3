"""Validate each candidate before the race."""

from __future__ import annotations

import time

from kedro_hone.building.steps import identify_runtime
from kedro_hone.comparing.checking import check_artifact, record_failure
from kedro_hone.comparing.setting import Setting, explain_outdated
from kedro_hone.core.text import open_logger
from kedro_hone.core.values.artifact import Artifact
from kedro_hone.core.values.digest import digest_json
from kedro_hone.core.values.measurement import Status, Validation
from kedro_hone.core.values.outcome import Candidate, Failed, FailureClass, Outcome, Refused
from kedro_hone.core.values.samples import Reference

logger = open_logger(__name__)

VERSION = 6
"""Increase it when the code would validate differently; it is part of a validation's key in the store."""


def validate(
    *, setting: Setting, outcome: Outcome, reference: Reference, candidate: str, route: tuple[str, ...]
) -> Validation:
    """Check the outcome of one candidate's route; for a candidate that may not race, the validation has the reason."""
    named = Candidate(id=candidate, route=route, outcome=outcome)
    place = {"candidate": named, "since": reference.since}
    if isinstance(outcome, Refused):
        reason = f"{outcome.by}: {outcome.reason}"
        return Validation(**place, status=Status.REFUSED, slug=outcome.slug, reason=reason)
    if isinstance(outcome, Failed):
        return record_failure(named, outcome).model_copy(update=place)
    _check_origin(outcome, candidate, setting)
    key = _make_key(outcome, reference, setting)
    known = setting.store.read_value(key)
    if known is not None:
        found = Validation.model_validate(known)
        # The same artifact may have been validated as another candidate.
        quality = found.quality and found.quality.model_copy(update={"id": candidate})
        return found.model_copy(update={**place, "quality": quality})
    started = time.monotonic()
    checked = check_artifact(named, outcome, reference, setting)
    seconds = time.monotonic() - started
    validation = checked.model_copy(update={"run": setting.run.run_id, "seconds": seconds})
    noted = validation.model_dump(include={"status", "reason", "seconds"})
    setting.run.note("validation", candidate=candidate, **noted)
    logger.info("%-9s %s%s", validation.status, candidate, f": {validation.reason}" if validation.reason else "")
    if not (validation.slug in set(FailureClass) and FailureClass(validation.slug).transient):
        setting.store.write_value(key, validation.model_dump(mode="json"))
    return validation.model_copy(update=place)


def _check_origin(artifact: Artifact, name: str, setting: Setting) -> None:
    """Refuse a persisted artifact that was made of another model than the source."""
    origin = artifact.digest
    if artifact.steps:
        first = setting.store.find(artifact.steps[0].key)
        origin = str(first.inputs["input"]) if first else "unknown"
    if origin != setting.source.digest:
        raise explain_outdated(f"{name}.outcome")


def _make_key(artifact: Artifact, reference: Reference, setting: Setting) -> str:
    gates, compared = setting.recipe.gates, [artifact.digest, reference.digest, setting.samples.digest]
    asked = [gates.drop, gates.confidence, setting.recipe.seed]
    return digest_json(["validation", VERSION, *compared, *asked, *identify_runtime(artifact)])
