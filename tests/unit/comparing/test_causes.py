from __future__ import annotations

import pytest

from kedro_hone.comparing.causes import explain
from kedro_hone.core.values.measurement import Confirmation, Finalist, Status, Validation
from kedro_hone.core.values.outcome import Candidate, Refused


def confirm(**verdicts):
    finalists = [
        Finalist(id=name, speedups=(), latency=(), launches=7, verdict=verdict) for name, verdict in verdicts.items()
    ]
    return Confirmation(
        finalists=finalists, source_latency=(), control=(), launches=7, looks=1, seconds=1.0, timings="sha256:0"
    )


def validate(**statuses):
    outcome = Refused(by="a", slug="format", reason="takes onnx")
    return [
        Validation(candidate=Candidate(id=name, route=(name,), outcome=outcome), status=status)
        for name, status in statuses.items()
    ]


def test_each_cause_is_counted_the_most_frequent_first_with_what_may_help_against_it():
    found = validate(
        a=Status.MEASURED,
        b=Status.MEASURED,
        c=Status.MEASURED,
        d=Status.DROPPED,
        e=Status.DROPPED,
        f=Status.DROPPED,
        g=Status.REFUSED,
        h=Status.FAILED,
        i=Status.NOT_TRIED,
    )
    counted, step = explain(found, confirm(a="no", b="no"))
    assert counted == (
        "of 9 candidates: 3 too far from the source's results, 2 not fast enough, 1 refused, 1 failed, "
        "1 not tried, 1 behind in the race"
    )
    assert step.startswith("what may help: calibration rows")


@pytest.mark.parametrize(
    ("verdict", "said", "step"),
    [
        ("no", "the one candidate: not fast enough", "toolchains"),
        ("yes", "the one candidate: fast enough, but failed another gate", "a larger limit"),
        ("", "the one candidate: failed", "correct what their reasons name"),
    ],
)
def test_a_finalist_is_lost_to_what_its_confirmation_found(verdict, said, step):
    counted, helpful = explain(validate(a=Status.MEASURED), confirm(a=verdict))
    assert (counted, step in helpful) == (said, True)


def test_no_advice_is_given_where_none_can_help():
    assert explain(validate(a=Status.NOT_TRIED), confirm()) == ["the one candidate: not tried"]
    assert explain([], confirm()) == []
