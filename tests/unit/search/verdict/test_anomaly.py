"""A trained candidate that is far better than its source is no winner until a person allows it."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from hone_runtime.values.artifact import Artifact
from hone_runtime.values.decision import Decision, Verdict
from hone_runtime.values.judgement import GateOutcome
from hone_runtime.values.measurement import (
    Confirmation,
    Finalist,
    Interval,
    Latency,
    Quality,
    RaceResult,
    Speedup,
)
from kedro_hone.core.gates import Measurements
from kedro_hone.nodes.publish import find_withheld
from kedro_hone.recipe.schema import read_recipe
from kedro_hone.search.verdict.anomaly import find_anomaly
from kedro_hone.search.verdict.verdict import GateResults, decide, evaluate_gates

ARTIFACT = Artifact(format="onnx", digest="sha256:0", inputs=(), outputs=())
TRAINED = ARTIFACT.model_copy(update={"metadata": {"trained": True}})


def make_quality(low, high, *, source=0.8, name="a", **changes):
    drop = Interval(estimate=(low + high) / 2, low=low, high=high)
    known = {"id": name, "metric": "accuracy", "split": "gate", "source": source, "candidate": source - drop.estimate}
    return Quality(**{**known, "drop": drop, "n": 900, **changes})


BETTER, SAME = make_quality(-0.10, -0.02), make_quality(-0.004, 0.005)


@pytest.mark.parametrize(
    ("quality", "trained", "found"),
    [
        (BETTER, True, True),
        (BETTER, False, False),
        (SAME, True, False),
        (make_quality(-0.12, 0.001), True, False),  # it may be chance
        (make_quality(-0.06, -0.03), True, False),
        (make_quality(-0.08, -0.03), True, True),
    ],
)
def test_only_a_certain_gain_of_a_trained_candidate_is_one(quality, trained, found):
    reason = find_anomaly(quality, trained=trained)
    assert reason.startswith("ANOMALOUS: ") is found


@pytest.mark.parametrize(
    ("metric", "source", "candidate", "higher", "found"),
    [
        ("accuracy", 0.80, 0.845, True, False),
        ("accuracy", 0.80, 0.855, True, True),
        ("accuracy", 0.40, 0.445, True, False),  # of the metric's scale, not of its value
        ("accuracy", 0.98, 0.984, True, False),
        ("accuracy", 0.98, 0.999, True, True),  # a leak where little is missing
        ("accuracy", 0.999, 1.0, True, True),
        ("r2", 0.01, 0.03, True, False),
        ("r2", 0.01, 0.2, True, True),
        ("r2", -0.2, -0.17, True, False),
        ("r2", -4.0, 0.9, True, True),
        ("matthews_corrcoef", 0.0, 0.04, True, False),
        ("matthews_corrcoef", 0.0, 0.5, True, True),
        ("mean_squared_error", 30.0, 25.0, False, False),
        ("mean_squared_error", 30.0, 20.0, False, True),
        ("mean_squared_error", 30.0, 40.0, False, False),  # worse
        ("mean_squared_error", 3e-5, 2.5e-5, False, False),
        ("mean_squared_error", 3e-5, 1e-6, False, True),
        ("log_loss", 0.20, 0.17, False, False),
        ("log_loss", 0.20, 0.02, False, True),
        ("chrf", 40.0, 41.5, True, False),
        ("chrf", 40.0, 55.0, True, True),
        ("chrf", 40.0, 30.0, True, False),
    ],
)
def test_the_gain_is_compared_on_the_scale_of_the_metric(metric, source, candidate, higher, found):
    worse = source - candidate if higher else candidate - source
    drop = Interval(estimate=worse, low=worse - 1e-6, high=worse + 1e-6)
    quality = make_quality(0, 0, source=source, candidate=candidate, metric=metric, higher_is_better=higher, drop=drop)
    reason = find_anomaly(quality, trained=True)
    assert bool(reason) is found
    assert f"{metric} goes from {source:.4f} to {candidate:.4f}" in reason or not found


def run(*finalists, allow=False, **gates):
    """Judge finalists, each a name, whether it was trained, and its quality."""
    ratio = Interval(estimate=2.0, low=1.8, high=2.2)
    speedup = Speedup(shape="batch1", ratio=ratio, noise_floor=1.01, launches=7)
    latency = (Latency(shape="batch1", p50_ms=1.0, n=100),)
    measured = [
        Measurements(id=name, faster="yes", speedup=speedup, latency=latency, trained=trained)
        for name, trained, _ in finalists
    ]
    confirmed = [
        Finalist(id=name, speedups=(speedup,), latency=latency, launches=7, verdict="yes", deciding=speedup)
        for name, *_ in finalists
    ]
    results = GateResults(
        gates=read_recipe({"model": {"uri": "m"}, "gates": {"drop": 0.01, **gates}}).gates,
        source=Measurements(id="source"),
        score={name: quality for name, _, quality in finalists}.__getitem__,
        allows_anomalies=allow,
    )
    evaluate_gates(results, measured, {})
    race = RaceResult(
        validations=(), standings=(), source_latency=(), rounds=1, seconds=1.0, budget_ended=False, timings=""
    )
    confirmation = Confirmation(
        finalists=confirmed, source_latency=(), control=(), launches=7, looks=1, seconds=1.0, timings=""
    )
    verdict, reasons = decide(results, race, confirmation)
    return verdict, " ".join(reasons), results


def test_an_anomalous_candidate_alone_is_inconclusive():
    verdict, reasons, results = run(("a", True, BETTER))
    assert (verdict, results.winner) == (Verdict.INCONCLUSIVE, None)
    assert "a is ANOMALOUS" in reasons
    assert "`hone.publish.allow: [anomalous]`" in reasons
    assert all(row.judgement is GateOutcome.HOLDS for row in results.judgements["a"] if row.name == "drop")


def test_the_next_one_may_win():
    verdict, reasons, results = run(("a", True, BETTER), ("b", False, make_quality(0.0, 0.005, name="b")))
    assert (verdict, results.winner) == (Verdict.PASS, "b")
    assert "a is ANOMALOUS" in reasons


def test_a_person_can_allow_it_and_it_is_still_stated():
    verdict, reasons, results = run(("a", True, BETTER), allow=True)
    assert (verdict, results.winner) == (Verdict.PASS, "a")
    assert "a is ANOMALOUS" in reasons
    assert "allowed by publish.allow" in reasons


def test_what_was_not_trained_may_be_as_good_as_it_likes():
    verdict, reasons, _ = run(("a", False, BETTER))
    assert verdict is Verdict.PASS
    assert "ANOMALOUS" not in reasons


@pytest.mark.parametrize("others", ["improvement", "absolute"])
def test_it_is_never_a_fail(others):
    gates = {"require_improvement": True} if others == "improvement" else {"quality": 0.99}
    finalists = [("a", True, BETTER), ("b", False, make_quality(0.0, 0.005, name="b"))]
    verdict, *_ = run(*finalists[: 1 if others == "improvement" else 2], **gates)
    assert verdict is Verdict.INCONCLUSIVE


@pytest.mark.parametrize(
    ("artifact", "allow", "withheld"), [(TRAINED, (), True), (TRAINED, ("anomalous",), False), (ARTIFACT, (), False)]
)
@pytest.mark.parametrize("place", ["decision", "evidence"])
def test_it_is_not_published_even_if_the_recipe_changed_since_the_verdict(artifact, allow, withheld, place):
    decision = Decision(verdict=Verdict.PASS, reasons=(), winner="a", artifact=artifact)
    evidence = SimpleNamespace(quality=(BETTER,) if place == "evidence" else ())
    decision = decision.model_copy(update={"quality": (BETTER,) if place == "decision" else ()})
    publish = read_recipe({"model": {"uri": "m"}, "publish": {"allow": list(allow)}}).publish
    assert bool(find_withheld(decision, evidence, publish)) is withheld
