"""What to do next follows from the reasons that there are."""

from __future__ import annotations

import pytest
from sample import make_evidence

from hone_runtime.values.decision import Verdict
from hone_runtime.values.judgement import GateOutcome, Judgement
from kedro_hone.report.advice import find_next_step


def make_undecided(*names, cut="", load=0.02, **race):
    evidence = make_evidence(Verdict.INCONCLUSIVE)
    confirmation = evidence.confirmation.model_copy(update={"cut": cut, "other_load": load})
    rows = tuple(
        Judgement(name=name, candidate="a", judgement=GateOutcome.UNDECIDED, reason="It is in doubt.") for name in names
    )
    changes = {"gates": rows, "confirmation": confirmation, "race": evidence.race.model_copy(update=race)}
    return evidence.model_copy(update=changes)


SECONDS = "the confirmation reached its limit of 60 s (hone.confirm.seconds) after 3 of 7 launches"


@pytest.mark.parametrize(
    ("evidence", "step"),
    [
        (
            make_undecided("speedup", cut=SECONDS),
            "Run again, with more time for the confirmation (hone.confirm.seconds).",
        ),
        (
            make_undecided("speedup", cut=SECONDS, load=0.67),
            "Run again, on a quiet machine or with more time for the confirmation (hone.confirm.seconds).",
        ),
        (make_undecided("speedup"), "Run again, with more launches (hone.confirm.looks)."),
        (make_undecided("drop"), "Run again, with more gate rows."),
        (make_undecided("other_load", load=0.67), "Run again, on a quiet machine."),
        (
            make_undecided("speedup", cut="the confirmation was interrupted after 2 of 7 launches"),
            "Run again, without an interruption: what was built and raced is used again.",
        ),
        (make_undecided("cold_start_ms"), "Read in the report which gate is undecided, and why."),
    ],
)
def test_the_next_step_follows_from_the_doubts(evidence, step):
    assert find_next_step(evidence) == step


def test_without_a_finalist_the_budget_is_named_only_if_it_ended_the_search():
    none = {"finalists": ()}
    for ended, step in (
        (True, "Run again, with a larger budget."),
        (False, "Read in the report why no candidate could be compared."),
    ):
        evidence = make_undecided(budget_ended=ended)
        confirmation = evidence.confirmation.model_copy(update=none)
        assert find_next_step(evidence.model_copy(update={"confirmation": confirmation})) == step
