"""A failure shared by many candidates, reported once."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from hone_runtime.values.artifact import Artifact
from hone_runtime.values.measurement import Status, Validation
from hone_runtime.values.outcome import Failed, Refused

_SHARED: Final = 3
"""A failure is shared if at least this many candidates have it."""
_MOST: Final = 3
"""The most shared failures that are reported."""
_LOST: Final = frozenset({Status.FAILED, Status.REFUSED, Status.NOT_TRIED})
_FORMAT: Final = "format"
_LONGEST: Final = 300
"""The most characters of a reason; the report has the full reason."""


def list_shared(validations: Iterable[Validation]) -> list[str]:
    """Return one sentence for each reason for which at least three candidates failed, the most frequent one first.

    If no candidate could be compared, there is one for each reason, including refusals: they explain the result.
    """
    listed = [*validations]
    none = all(one.status in _LOST for one in listed)
    groups: dict[tuple[Status, str], list[Validation]] = {}
    for validation in listed:
        if validation.status is Status.FAILED or (none and validation.status is Status.REFUSED):
            groups.setdefault((validation.status, _find_reason(validation)), []).append(validation)
    least = 1 if none else _SHARED
    shared = sorted((group for group in groups.items() if len(group[1]) >= least), key=_rank)
    sentences = [_format_failures(status, reason, lost) for (status, reason), lost in shared if reason]
    return sentences[:_MOST]


def _rank(group: tuple[tuple[Status, str], list[Validation]]) -> tuple[bool, int]:
    """Return the key that sorts reasons: that an adaptor is for another format comes last."""
    outcomes = [one.candidate.outcome for one in group[1]]
    strange = all(isinstance(one, Refused) and one.slug == _FORMAT for one in outcomes)
    return strange, -len(outcomes)


def _find_reason(validation: Validation) -> str:
    """Return why a candidate failed, without the step, which is in its name."""
    outcome = validation.candidate.outcome
    if isinstance(outcome, Failed | Refused):
        return outcome.reason
    return validation.reason.removeprefix(f"{validation.candidate.id}: ")


def _format_failures(status: Status, reason: str, lost: list[Validation]) -> str:
    steps = {one.candidate.outcome.by for one in lost if not isinstance(one.candidate.outcome, Artifact)}
    where = f" at {', '.join(sorted(steps))}" if 0 < len(steps) <= _MOST else ""
    cut = reason if len(reason) <= _LONGEST else f"{reason[:_LONGEST]}…"
    count = "1 candidate" if len(lost) == 1 else f"{len(lost)} candidates"
    verb = "failed" if status is Status.FAILED else "was refused" if len(lost) == 1 else "were refused"
    return f"{count} {verb}{where}{' for one reason' if len(lost) > 1 else ''}: {cut}"
