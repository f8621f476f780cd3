"""How many candidates were lost to which cause, and what may help."""

from __future__ import annotations

import pytest

from hone_runtime.values.measurement import (
    Choice,
    Confirmation,
    Finalist,
    RaceResult,
    Standing,
    Status,
    Validation,
)
from hone_runtime.values.outcome import Candidate, Refused
from kedro_hone.search.verdict.causes import explain

CUT = "the confirmation was interrupted after 0 of 7 launches"


def confirm(*, reason="", cut="", **verdicts):
    finalists = [
        Finalist(id=name, speedups=(), latency=(), launches=7, verdict=verdict, reason=reason)
        for name, verdict in verdicts.items()
    ]
    return Confirmation(
        finalists=finalists, source_latency=(), control=(), launches=7, looks=1, seconds=1.0, timings="", cut=cut
    )


def run_race(*, standings=None, choice=None, reason="", **statuses):
    outcome = Refused(by="a", slug="format", reason="takes onnx")
    validations = [
        Validation(candidate=Candidate(id=name, route=(name,), outcome=outcome), status=status, reason=reason)
        for name, status in statuses.items()
    ]
    placed = [Standing(id=name, status=status, rounds=9) for name, status in (standings or {}).items()]
    return RaceResult(
        validations=validations,
        standings=placed,
        source_latency=(),
        rounds=9,
        seconds=1.0,
        budget_ended=False,
        timings="",
        choice=choice,
    )


def test_each_cause_is_counted_the_most_frequent_first_with_what_may_help_against_it():
    found = run_race(
        a=Status.MEASURED,
        b=Status.MEASURED,
        c=Status.MEASURED,
        d=Status.DROPPED,
        e=Status.DROPPED,
        f=Status.DROPPED,
        g=Status.REFUSED,
        h=Status.FAILED,
        i=Status.NOT_TRIED,
        standings=dict.fromkeys("abc", Status.MEASURED),
    )
    counted, step = explain(found, confirm(a="no", b="no"))
    assert counted == (
        "of 9 candidates: 3 too far from the source's results, 2 not fast enough, 1 behind in the race, 1 refused, "
        "1 failed, 1 not tried"
    )
    assert step.startswith("what may help: calibration rows")


def test_if_no_cause_is_more_frequent_the_most_frequent_refusal_is_named():
    refused = run_race(a=Status.REFUSED, b=Status.REFUSED, reason="the layer body.3 cannot be traced")
    other = run_race(c=Status.REFUSED, reason="takes onnx")
    both = refused.model_copy(update={"validations": (*other.validations, *refused.validations)})
    counted, reason, step = explain(both, confirm())
    assert counted == "of 3 candidates: 3 refused"
    assert reason == "2 refused because: the layer body.3 cannot be traced"
    assert step.startswith("what may help: toolchains")


def test_a_refusal_is_not_named_if_another_cause_is_more_frequent():
    found = run_race(a=Status.DROPPED, b=Status.DROPPED, c=Status.REFUSED, reason="takes onnx")
    assert not any("takes onnx" in line for line in explain(found, confirm()))


@pytest.mark.parametrize(
    ("verdict", "said", "step"),
    [
        ("no", "the one candidate: not fast enough", "toolchains"),
        ("yes", "the one candidate: fast enough, but failed another gate", "a larger limit"),
        ("", "the one candidate: failed", "correct the causes that the report lists"),
    ],
)
def test_a_finalist_is_lost_to_what_its_confirmation_found(verdict, said, step):
    found = run_race(a=Status.MEASURED, standings={"a": Status.MEASURED})
    counted, helpful = explain(found, confirm(a=verdict, reason="" if verdict else "it crashed"))
    assert (counted, step in helpful) == (said, True)


@pytest.mark.parametrize(("reason", "said"), [(CUT, "not decided"), ("it crashed", "failed")])
def test_a_finalist_without_a_verdict_failed_unless_the_confirmation_was_cut_before_it(reason, said):
    found = run_race(a=Status.MEASURED, standings={"a": Status.MEASURED})
    assert explain(found, confirm(a="", reason=reason, cut=CUT))[0] == f"the one candidate: {said}"


@pytest.mark.parametrize(
    ("status", "said"),
    [
        (Status.MEASURED, "behind in the race"),
        (Status.DROPPED, "behind in the race"),
        (Status.FAILED, "failed"),
        (Status.REFUSED, "refused"),
        (Status.NOT_TRIED, "not tried"),
        (None, "not tried"),
    ],
)
def test_a_valid_candidate_that_is_no_finalist_is_lost_to_what_the_race_found(status, said):
    """All were called behind in the race, also where none ran."""
    found = run_race(a=Status.MEASURED, standings={"a": status} if status else {})
    assert explain(found, confirm())[0] == f"the one candidate: {said}"


@pytest.mark.parametrize("status", [Status.MEASURED, Status.DROPPED])
def test_what_a_person_did_not_choose_is_not_behind(status):
    choice = Choice(candidate="a", number=1, offered=2, confidence=0.95)
    standings = {"a": Status.MEASURED, "b": status}
    found = run_race(a=Status.MEASURED, b=Status.MEASURED, standings=standings, choice=choice)
    assert explain(found, confirm(a="no"))[0] == "of 2 candidates: 1 not fast enough, 1 not chosen"


def test_what_may_not_be_published_failed_no_gate():
    found = run_race(a=Status.MEASURED, standings={"a": Status.MEASURED})
    said = explain(found, confirm(a="yes"), withheld={"a": "its licence is for evaluation only"})
    assert said == ["the one candidate: fast enough, but may not be published"]


def test_no_advice_is_given_where_none_can_help():
    assert explain(run_race(a=Status.NOT_TRIED), confirm()) == ["the one candidate: not tried"]
    assert explain(run_race(), confirm()) == []


def test_no_advice_is_against_a_cause_that_is_not_the_most_frequent():
    found = run_race(a=Status.NOT_TRIED, b=Status.NOT_TRIED, c=Status.FAILED)
    assert explain(found, confirm()) == ["of 3 candidates: 2 not tried, 1 failed"]


def test_each_of_the_most_frequent_causes_has_its_advice_once():
    found = run_race(
        a=Status.MEASURED,
        b=Status.MEASURED,
        c=Status.NOT_TRIED,
        d=Status.FAILED,
        standings={"a": Status.MEASURED, "b": Status.DROPPED},
    )
    _, *steps = explain(found, confirm(a="no"))
    assert ["toolchains" in step for step in steps] == [True, False]
    assert "correct the causes that the report lists" in steps[1]
