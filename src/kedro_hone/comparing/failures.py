"""A failure that many candidates share, told once."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from kedro_hone.core.values.artifact import Artifact
from kedro_hone.core.values.measurement import Status, Validation
from kedro_hone.core.values.outcome import Failed, Refused

_SHARED: Final = 3
"""From so many candidates on a failure is said to be shared."""
_MOST: Final = 3
"""So many such failures are told."""
_LONGEST: Final = 300
"""Characters of a reason; the report has all of it."""


def list_shared(validations: Iterable[Validation]) -> list[str]:
    """Return one sentence for each reason that three candidates or more failed for, the most frequent one first."""
    groups: dict[str, list[Validation]] = {}
    for validation in validations:
        if validation.status is Status.FAILED:
            groups.setdefault(_find_reason(validation), []).append(validation)
    shared = sorted((group for group in groups.items() if len(group[1]) >= _SHARED), key=lambda item: -len(item[1]))
    return [_say(reason, failed) for reason, failed in shared[:_MOST] if reason]


def _find_reason(validation: Validation) -> str:
    """Return why a candidate failed, without whose step it was, which its name says."""
    outcome = validation.candidate.outcome
    if isinstance(outcome, Failed | Refused):
        return outcome.reason
    return validation.reason.removeprefix(f"{validation.candidate.id}: ")


def _say(reason: str, failed: list[Validation]) -> str:
    steps = {one.candidate.outcome.by for one in failed if not isinstance(one.candidate.outcome, Artifact)}
    where = f" at {', '.join(sorted(steps))}" if 0 < len(steps) <= _MOST else ""
    cut = reason if len(reason) <= _LONGEST else f"{reason[:_LONGEST]}…"
    return f"{len(failed)} candidates failed{where} for one reason: {cut}"
