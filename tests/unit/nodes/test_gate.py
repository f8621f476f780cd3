from __future__ import annotations

import pytest

from kedro_hone.core.values.measurement import (
    Confirmation,
    Finalist,
    Interval,
    Latency,
    Quality,
    Speedup,
    Status,
    Validation,
    Verdict,
)
from kedro_hone.core.values.outcome import Candidate, Refused
from kedro_hone.nodes.gate import _check_absolute, _decide, fails, holds, was_compared
from kedro_hone.recipe.schema import read_recipe


def quality(low, high, value=0.99):
    drop = Interval(estimate=(low + high) / 2, low=low, high=high)
    return Quality(metric="accuracy", split="gate", source=0.99, candidate=value, drop=drop, limit=0.01, n=400)


def finalist(name, verdict, p50_ms=1.0):
    ratio = Interval(estimate=2.0, low=1.8, high=2.2)
    speedup = Speedup(shape="batch1", ratio=ratio, noise_floor=1.01, launches=7)
    latency = (Latency(shape="batch1", p50_ms=p50_ms, n=100),)
    return Finalist(id=name, speedups=(speedup,), latency=latency, launches=7, verdict=verdict, deciding=speedup)


def confirmation(*finalists):
    source = (Latency(shape="batch1", p50_ms=2.0, n=100),)
    return Confirmation(
        finalists=finalists, source_latency=source, control=(), launches=7, looks=1, seconds=1.0, timings="sha256:0"
    )


def recipe(**gates):
    return read_recipe({"model": {"uri": "models:/x/1"}, "gates": {"drop": 0.01, **gates}})


@pytest.mark.parametrize(
    ("low", "high", "expected"),
    [(-0.01, 0.009, (True, False)), (0.011, 0.02, (False, True)), (0, 0.02, (False, False))],
)
def test_a_drop_holds_fails_or_cannot_be_told(low, high, expected):
    assert (holds(quality(low, high), 0.01), fails(quality(low, high), 0.01)) == expected


def test_exactly_the_limit_does_not_hold():
    assert not holds(quality(0.0, 0.01), 0.01)


def validation(status, slug=""):
    candidate = Candidate(id="a", route=("a",), outcome=Refused(by="a", slug="format", reason="takes onnx"))
    return Validation(candidate=candidate, status=status, slug=slug)


def decide(finalists, qualities, winner=None, found=(), **gates):
    reasons: list[str] = []
    best = next((f for f in finalists if f.id == winner), None)
    verdict = _decide(
        best,
        qualities,
        confirmation=confirmation(*finalists),
        compared=was_compared(confirmation(*finalists), found),
        recipe=recipe(**gates),
        reasons=reasons,
    )
    return verdict, " ".join(reasons)


def test_a_winner_passes_and_the_first_reason_says_how_fast():
    verdict, reasons = decide([finalist("a", "yes")], {"a": quality(0, 0.005)}, winner="a")

    assert verdict is Verdict.PASS
    assert "2.00 times as fast" in reasons
    assert "1.80 to 2.20" in reasons


def test_faster_but_unproved_quality_is_inconclusive():
    verdict, reasons = decide([finalist("a", "yes")], {"a": quality(0, 0.02)})

    assert verdict is Verdict.INCONCLUSIVE
    assert "too few rows" in reasons


def test_undecided_speed_is_inconclusive():
    assert decide([finalist("a", "undecided")], {})[0] is Verdict.INCONCLUSIVE


def test_nothing_faster_keeps_the_source():
    verdict, reasons = decide([finalist("a", "no")], {})

    assert verdict is Verdict.KEEP
    assert "source model stays" in reasons


def test_faster_but_worse_keeps_the_source():
    assert decide([finalist("a", "yes")], {"a": quality(0.02, 0.05)})[0] is Verdict.KEEP


def test_candidates_that_all_lose_quality_keep_the_source():
    assert decide([], {}, found=[validation(Status.DROPPED, "quality")])[0] is Verdict.KEEP


@pytest.mark.parametrize("gates", [{}, {"require_improvement": True}])
@pytest.mark.parametrize(
    ("finalists", "found"),
    [([], []), ([], [validation(Status.REFUSED, "format")]), ([finalist("a", "")], [validation(Status.MEASURED)])],
    ids=["no candidate", "all refused", "none confirmed"],
)
def test_where_nothing_was_compared_nothing_is_proved(finalists, found, gates):
    verdict, reasons = decide(finalists, {}, found=found, **gates)

    assert verdict is Verdict.INCONCLUSIVE
    assert "no candidate could be compared" in reasons


def test_a_required_improvement_that_is_missing_fails():
    assert decide([finalist("a", "no")], {}, require_improvement=True)[0] is Verdict.FAIL


def absolute(verdict, winner, qualities, **gates):
    reasons: list[str] = []
    finalists = [finalist("a", "yes")]
    found = finalists[0] if winner else None
    answer = _check_absolute(
        verdict, found, qualities, confirmation=confirmation(*finalists), recipe=recipe(**gates), reasons=reasons
    )
    return answer, reasons


def test_an_absolute_latency_is_asked_of_the_winner_or_else_of_the_source():
    assert absolute(Verdict.PASS, "a", {}, latency_ms={"batch1": 1.5})[0] is Verdict.PASS
    verdict, reasons = absolute(Verdict.KEEP, None, {}, latency_ms={"batch1": 1.5})

    assert verdict is Verdict.FAIL
    assert "2.000 ms, where 1.5 ms is allowed" in reasons[0]


def test_an_absolute_quality_is_asked_of_the_best_there_is():
    qualities = {"a": quality(0, 0.005, value=0.9), "source": quality(0, 0.005, value=0.99)}

    assert absolute(Verdict.PASS, "a", qualities, quality=0.95)[0] is Verdict.FAIL
    assert absolute(Verdict.KEEP, None, qualities, quality=0.95)[0] is Verdict.KEEP


def test_inconclusive_stays_inconclusive():
    assert absolute(Verdict.INCONCLUSIVE, None, {}, latency_ms={"batch1": 0.1})[0] is Verdict.INCONCLUSIVE
