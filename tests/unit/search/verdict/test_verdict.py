"""A decision that does not follow from what was measured."""

from __future__ import annotations

import pytest
from pydantic import Field

from hone_runtime.values.artifact import Artifact
from hone_runtime.values.decision import Decision, Verdict
from hone_runtime.values.judgement import GateOutcome, Judgement
from hone_runtime.values.measurement import (
    Confirmation,
    Finalist,
    Interval,
    RaceResult,
    Speedup,
    Status,
    Validation,
)
from hone_runtime.values.outcome import Candidate
from kedro_hone.core.gates import Gate
from kedro_hone.recipe.schema import read_recipe
from kedro_hone.search.verdict.verdict import can_win, find_contradiction, list_limits

ARTIFACT = Artifact(format="onnx", digest="sha256:0", inputs=(), outputs=())
OTHER = ARTIFACT.model_copy(update={"digest": "sha256:1"})


def speedup(estimate):
    return Speedup(shape="a", ratio=Interval(estimate=estimate, low=1.0, high=9.0), noise_floor=1.0, launches=7)


def validation(name):
    return Validation(candidate=Candidate(id=name, route=(name,), outcome=ARTIFACT), status=Status.MEASURED)


RACE = RaceResult(
    validations=(validation("fast"), validation("slow"), validation("even")), standings=(), source_latency=(), rounds=1,
    seconds=1, budget_ended=False, timings="",
)  # fmt: skip
CONFIRMATION = Confirmation(
    finalists=(
        Finalist(id="fast", speedups=(), latency=(), launches=7, verdict="yes", deciding=speedup(2.0)),
        Finalist(id="even", speedups=(), latency=(), launches=7, verdict="undecided", deciding=speedup(2.0)),
    ),
    source_latency=(), control=(), launches=7, looks=1, seconds=1, timings="",
)  # fmt: skip
ASKED = read_recipe({"model": {"uri": "m"}, "gates": {"size_mb": 9}}).gates
GATES = tuple(
    Judgement(name=gate.name, candidate=name, judgement=judged)
    for gate in list_limits(ASKED)
    for name, judged in (("fast", GateOutcome.HOLDS), ("slow", GateOutcome.FAILS), ("even", GateOutcome.HOLDS))
)
WON = Decision(
    verdict=Verdict.PASS, reasons=(), winner="fast", artifact=ARTIFACT, speedup=speedup(2.0), gates=GATES
)  # fmt: skip


def find(**changes):
    return find_contradiction(WON.model_copy(update=changes), RACE, CONFIRMATION, gates=ASKED)


def test_a_winner_that_was_confirmed_and_holds_its_gates_follows():
    assert find() == ""


@pytest.mark.parametrize("verdict", [Verdict.KEEP, Verdict.FAIL, Verdict.INCONCLUSIVE])
def test_another_verdict_has_no_winner(verdict):
    assert find(verdict=verdict, winner=None, artifact=None) == ""
    assert "does not belong to a finalist" in find(verdict=verdict, winner=None, artifact=None, speedup=speedup(99.0))
    assert "contradict each other" in find(verdict=verdict)


@pytest.mark.parametrize(
    ("changes", "fault"),
    [
        ({"winner": None}, "contradict each other"),
        ({"winner": "slow"}, "slow is not a finalist"),
        ({"winner": "nobody"}, "nobody is not a finalist"),
        ({"winner": "even"}, "The speed-up of even was not confirmed"),
        ({"speedup": speedup(99.0)}, "does not belong to a finalist"),
        ({"speedup": None}, "The speed-up of fast was not confirmed"),
        ({"gates": ()}, "was not judged by drop, other_load, size_mb, speedup"),
        ({"gates": tuple(row for row in GATES if row.name != "other_load")}, "was not judged by other_load"),
        (
            {
                "gates": tuple(
                    row.model_copy(update={"against": "honed" if row.name == "other_load" else ""}) for row in GATES
                )
            },
            "was not judged by other_load",
        ),
        ({"artifact": OTHER}, "other files"),
        ({"artifact": None}, "other files"),
        (
            {"gates": (*GATES, Judgement(name="drop", candidate="fast", judgement=GateOutcome.UNDECIDED))},
            "does not pass every gate",
        ),
    ],
)
def test_a_winner_that_does_not_follow_is_told(changes, fault):
    assert fault in find(**changes)


@pytest.mark.parametrize(
    ("told", "able"),
    [
        ({"size_bytes": 900_000}, True),
        ({"size_bytes": 1_100_000}, False),
        ({"size_bytes": None}, True),
        ({"size_bytes": 900_000, "publishable": False}, False),
    ],
)
def test_who_may_not_be_published_or_misses_a_gate_by_what_is_known_cannot_win(told, able):
    recipe = read_recipe({"model": {"uri": "m"}, "gates": {"size_mb": 1.0}})
    assert can_win(validation("fast").model_copy(update=told), recipe.gates) is able


@pytest.mark.parametrize(("measured", "able"), [(5.0, False), (None, True)])
def test_what_is_not_measured_yet_is_no_missed_gate(monkeypatch, measured, able):
    """The latencies are the confirmation's: a gate that fails for want of them says nothing before it."""
    gate = Gate(
        name="mine", takes=float, field=Field(default=None, description="Mine."),
        judge=lambda _limit, candidate, _source: (gate.rule(candidate.id, GateOutcome.FAILS, "no", measured=measured),),
    )  # fmt: skip
    monkeypatch.setattr("kedro_hone.search.verdict.verdict.list_limits", lambda _: {gate: 1.0})
    assert can_win(validation("fast"), read_recipe({"model": {"uri": "m"}}).gates) is able
