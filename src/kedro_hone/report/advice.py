"""The reasons of a verdict, and the next step."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from hone_runtime.values.decision import Verdict
from hone_runtime.values.judgement import GateOutcome
from hone_runtime.values.measurement import BUSY
from kedro_hone.report.evidence import Evidence

_STEPS: Final = {
    Verdict.KEEP: "Nothing has to be done: keep the source.",
    Verdict.FAIL: "Read in the report which gate failed, and by how much.",
    Verdict.DRAFT: "Give real rows, with labels where the model has a task: `kedro-hone optimize MODEL --data FILE`.",
}
"""The next step after each verdict but PASS and INCONCLUSIVE."""
_LIMIT: Final = "hone.confirm.seconds"
_MACHINE, _SPEED, _QUALITY = "other_load", "speedup", frozenset({"drop", "drops"})
"""The names of gates: what helps against a doubt depends on the gate."""
_HELP: Final = "what may help: "
"""The beginning of the reasons that propose a next step."""


def find_next_step(evidence: Evidence) -> str:
    """Return what to do next; empty after a PASS."""
    decided = evidence.verdict is not Verdict.INCONCLUSIVE
    step = _STEPS.get(evidence.verdict, "") if decided else _find_remedy(evidence)
    helps = [reason.removeprefix(_HELP) for reason in evidence.reasons if reason.startswith(_HELP)]
    return f"{step} What may help: {'; '.join(helps)}." if step and helps else step


def list_causes(evidence: Evidence) -> list[str]:
    """Return the reasons of the verdict, without those that the next step contains."""
    named = bool(find_next_step(evidence))
    return [reason for reason in evidence.reasons if not (named and reason.startswith(_HELP))]


def _find_remedy(evidence: Evidence) -> str:
    """Return the next step where nothing is decided: what helps against the doubts that there are."""
    if helps := [*_list_remedies(evidence)]:
        return f"Run again, {' or '.join(helps)}."
    if any(row.judgement is GateOutcome.UNDECIDED for row in evidence.gates):
        return "Read in the report which gate is undecided, and why."
    return "Read in the report why no candidate could be compared."


def _list_remedies(evidence: Evidence) -> Iterator[str]:
    doubts = {row.name for row in evidence.gates if row.judgement is GateOutcome.UNDECIDED}
    cut = evidence.confirmation.cut
    slow = bool(cut) or _SPEED in doubts
    if _MACHINE in doubts or (slow and (evidence.confirmation.other_load or 0.0) > BUSY):
        yield "on a quiet machine"
    if _LIMIT in cut:
        yield f"with more time for the confirmation ({_LIMIT})"
    elif cut:
        yield "without an interruption: what was built and raced is used again"
    elif _SPEED in doubts:
        yield "with more launches (hone.confirm.looks)"
    if doubts & _QUALITY:
        yield "with more gate rows"
    if not evidence.finalists and evidence.race.budget_ended:
        yield "with a larger budget"
