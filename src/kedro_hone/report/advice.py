"""The reasons of a verdict, and the next step."""

from __future__ import annotations

from typing import Final

from hone_runtime.values.decision import Verdict
from kedro_hone.report.evidence import Evidence

_STEPS: Final = {
    Verdict.KEEP: "Nothing has to be done: keep the source.",
    Verdict.FAIL: "Read in the report which gate failed, and by how much.",
    Verdict.INCONCLUSIVE: "Run again, on a quiet machine or with more gate rows, launches (confirm.looks) or budget.",
    Verdict.DRAFT: "Give real rows, with labels where the model has a task: `kedro-hone optimize MODEL --data FILE`.",
}
"""The next step after each verdict but PASS."""
_HELP: Final = "what may help: "
"""The beginning of the reasons that propose a next step."""


def find_next_step(evidence: Evidence) -> str:
    """Return what to do next; empty after a PASS."""
    step = _STEPS.get(evidence.verdict, "")
    helps = [reason.removeprefix(_HELP) for reason in evidence.reasons if reason.startswith(_HELP)]
    return f"{step} What may help: {'; '.join(helps)}." if step and helps else step


def list_causes(evidence: Evidence) -> list[str]:
    """Return the reasons of the verdict, without those that the next step contains."""
    named = bool(find_next_step(evidence))
    return [reason for reason in evidence.reasons if not (named and reason.startswith(_HELP))]
