from __future__ import annotations

from types import SimpleNamespace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import Field

from hone_runtime.values.decision import Verdict
from hone_runtime.values.judgement import GateOutcome, Judgement
from hone_runtime.values.measurement import (
    Confirmation,
    Finalist,
    Interval,
    Latency,
    Quality,
    RaceResult,
    Speedup,
    Status,
    Validation,
)
from hone_runtime.values.outcome import Candidate, Refused
from kedro_hone.core.gates import Gate, Measurements
from kedro_hone.recipe.schema import read_recipe
from kedro_hone.search.gates import drop, speedup
from kedro_hone.search.verdict.verdict import GateResults, evaluate_gates
from kedro_hone.search.verdict.verdict import decide as decide_verdict


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
    judged = judge_drop(quality(low, high))

    assert (judged is GateOutcome.HOLDS, judged is GateOutcome.FAILS) == expected


def test_exactly_the_limit_does_not_hold():
    assert judge_drop(quality(0.0, 0.01)) is not GateOutcome.HOLDS


def validation(status, slug=""):
    candidate = Candidate(id="a", route=("a",), outcome=Refused(by="a", slug="format", reason="takes onnx"))
    return Validation(candidate=candidate, status=status, slug=slug)


def end_race(validations=()):
    return RaceResult(
        validations=tuple(validations),
        standings=(),
        source_latency=(),
        rounds=1,
        seconds=1.0,
        budget_ended=False,
        timings="",
    )


def measure(one, **measured):
    return Measurements(id=one.id, faster=one.verdict, speedup=one.deciding, latency=one.latency, **measured)


def judge_drop(found):
    candidate = Measurements(id="a", quality=found)
    (judgement,) = drop.GATE.evaluate(0.01, candidate, candidate)
    return judgement.judgement


def run_gates(finalists, qualities, *, found=(), unpublishable=(), measured=None, source=None, load=None, **gates):
    """Ask the gates of a recipe; ``measured`` holds more of a finalist, ``source`` more of the source.

    ``load`` is what other processes took of the cores while the finalists were confirmed.
    """
    measured = measured or {}
    itself = Measurements(**{"id": "source", "latency": confirmation().source_latency, **(source or {})})
    results = GateResults(gates=recipe(**gates).gates, source=itself, score=qualities.__getitem__)
    evaluate_gates(
        results,
        [measure(one, other_load=load, **measured.get(one.id, {})) for one in finalists],
        dict.fromkeys(unpublishable, "its licence is for evaluation only"),
    )
    verdict, reasons = decide_verdict(results, end_race(found), confirmation(*finalists))
    return verdict, reasons, results


def decide(finalists, qualities, winner=None, found=(), **gates):
    verdict, reasons, results = run_gates(finalists, qualities, found=found, **gates)
    assert results.winner == winner
    return verdict, " ".join(reasons)


def test_a_winner_passes_and_the_first_reason_says_how_fast():
    verdict, reasons = decide([finalist("a", "yes")], {"a": quality(0, 0.005)}, winner="a")

    assert verdict is Verdict.PASS
    assert "2.00 times as fast" in reasons
    assert "1.80 to 2.20" in reasons


@pytest.mark.parametrize("speed", ["yes", "no", "undecided"])
@pytest.mark.parametrize("gates", [{}, {"require_improvement": True}, {"latency_ms": {"batch1": 0.1}}])
def test_a_busy_machine_decides_nothing(speed, gates):
    verdict, reasons, results = run_gates([finalist("a", speed)], {}, load=0.62, **gates)

    assert (verdict, results.winner) == (Verdict.INCONCLUSIVE, None)  # and the gate split was not read
    said = "other processes took 0.62 of the cores' time, where hone.gates.other_load allows 0.25"
    assert f"{said}: run again when the machine is idle, or raise the limit if it never is" in reasons
    assert "a busy machine prove nothing" in reasons[-1]
    assert "the source model stays" not in " ".join(reasons)


@pytest.mark.parametrize(("load", "gates"), [(None, {}), (0.0, {}), (0.25, {}), (1.0, {"other_load": 1})])
def test_less_load_than_allowed_is_no_reason(load, gates):
    verdict, reasons, _ = run_gates([finalist("a", "yes")], {"a": quality(0, 0.005)}, load=load, **gates)
    assert verdict is Verdict.PASS
    assert "2.00 times as fast" in reasons[0]
    assert "processes" not in " ".join(reasons)
    verdict, reasons, _ = run_gates([finalist("a", "no")], {}, load=load, **gates)
    assert (verdict, reasons[-1]) == (
        Verdict.KEEP,
        "no candidate is 1.05 times as fast and good enough: the source model stays",
    )


@pytest.mark.parametrize(("load", "said"), [(0.2504, "0.251"), (0.25, "0.25"), (0.2496, "0.249"), (1.0, "1")])
def test_a_load_is_told_on_the_side_of_the_limit_that_it_is_on(load, said):
    rows = run_gates([finalist("a", "no")], {}, load=load)[2].list_judgements()
    (row,) = (row for row in rows if row.name == "other_load")
    assert row.reason.startswith(f"other processes took {said} of the cores' time")


def test_candidates_that_were_dropped_before_keep_the_source_on_a_busy_machine_too():
    assert run_gates([], {}, load=0.9, found=[validation(Status.DROPPED, "quality")])[0] is Verdict.KEEP


def test_the_report_tells_of_the_finalist_that_was_scored():
    undecided, scored = finalist("a", "undecided"), finalist("b", "yes")
    verdict, reasons, results = run_gates([undecided, scored], {"b": quality(0, 0.02)})

    assert (verdict, results.best, results.reported) == (Verdict.INCONCLUSIVE, None, "b")
    assert reasons[0].startswith("b cannot be proved to hold the quality gate")
    assert run_gates([undecided], {})[2].reported == "a"


@pytest.mark.parametrize(
    ("speeds", "qualities", "gates"),
    [
        ({"a": "yes", "b": "yes"}, {"a": quality(0.02, 0.05), "b": quality(0, 0.02)}, {}),
        ({"a": "no", "b": "undecided"}, {}, {}),
        ({"a": "yes", "b": "undecided"}, {"a": "it cannot be scored"}, {}),
        ({"a": "no", "b": "yes"}, {}, {"load": 0.9}),
        ({"a": "no", "b": "yes", "c": "undecided"}, {}, {"load": 0.9}),
        (
            {"a": "yes", "b": "yes"},
            {"a": quality(0, 0.005), "b": quality(0, 0.005)},
            {"size_mb": 1, "measured": {"a": {"size_bytes": 10**7}}},  # how large b is, is not known
        ),
    ],
)
def test_the_report_tells_of_the_finalist_of_whom_nothing_is_certain(speeds, qualities, gates):
    """It told of one that was certainly no winner, next to the doubt about another one."""
    verdict, _, results = run_gates([finalist(*one) for one in speeds.items()], qualities, **gates)
    assert (verdict, results.reported) == (Verdict.INCONCLUSIVE, "b")


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
    [([], [validation(Status.REFUSED, "format")]), ([finalist("a", "")], [validation(Status.MEASURED)])],
    ids=["all refused", "none confirmed"],
)
def test_where_nothing_was_compared_nothing_is_proved(finalists, found, gates):
    verdict, reasons = decide(finalists, {}, found=found, **gates)

    assert verdict is Verdict.INCONCLUSIVE
    assert "no candidate could be compared" in reasons


@pytest.mark.parametrize("others", [[], [finalist("b", "no")]], ids=["alone", "with a slower one"])
@pytest.mark.parametrize("speed", ["", "undecided"])
def test_a_confirmation_that_was_cut_short_keeps_nothing(speed, others):
    """Also where a candidate was dropped, and another one decided: the source was not found to be best."""
    finalists, itself = [finalist("a", speed), *others], Measurements(id="source")
    results = GateResults(gates=recipe().gates, source=itself, score={}.__getitem__)
    evaluate_gates(results, [measure(one) for one in finalists], {})
    cut = confirmation(*finalists).model_copy(update={"cut": "the confirmation was interrupted after 4 of 7 launches"})
    verdict, reasons = decide_verdict(results, end_race([validation(Status.DROPPED, "quality")]), cut)
    assert verdict is Verdict.INCONCLUSIVE
    assert reasons[-1] == "the confirmation was interrupted after 4 of 7 launches: nothing is decided"
    assert not any("no candidate could be compared" in reason for reason in reasons)


def test_where_the_recipe_selects_nothing_that_is_the_reason():
    verdict, reasons = decide([], {})
    assert verdict is Verdict.INCONCLUSIVE
    assert reasons.startswith("there is no candidate: nothing that the recipe selects")


def test_a_required_improvement_that_is_missing_fails():
    verdict, reasons, _ = run_gates([finalist("a", "no")], {}, require_improvement=True)

    assert verdict is Verdict.FAIL
    assert reasons[-1] == "the recipe requires an improvement"


def test_what_cannot_be_told_is_said_with_its_names():
    undecided = [finalist("a", "undecided"), finalist("b", "no"), finalist("c", "undecided")]
    assert run_gates(undecided, {})[1] == [
        "7 launches cannot show whether a, c are 1.05 times as fast (hone.confirm.looks may allow more); "
        + judge_speed(undecided[0])
    ]


def judge_speed(one):
    (row,) = speedup.GATE.evaluate(1.05, measure(one), measure(one))
    return row.reason


def test_who_fails_a_gate_is_in_no_doubt():
    """It was INCONCLUSIVE for the sake of a drop that nobody asked about any more."""
    several = quality(0, 0.02).model_copy(update={"others": (quality(0.02, 0.05).model_copy(update={"metric": "f1"}),)})
    verdict, reasons, results = run_gates([finalist("a", "yes")], {"a": several}, drops={"f1": 0.01})
    assert (verdict, results.list_undecided()) == (Verdict.KEEP, [])
    assert reasons[-1].endswith("the source model stays")
    verdict, reasons, results = run_gates(
        [finalist("a", "yes"), finalist("b", "undecided")], {"a": several}, drops={"f1": 0.01}
    )
    assert (verdict, results.reported) == (Verdict.INCONCLUSIVE, "b")
    assert "whether b is 1.05 times as fast" in reasons[-1]


FASTER = {Verdict.PASS: "yes", Verdict.KEEP: "no", Verdict.INCONCLUSIVE: "undecided"}


def absolute(verdict, winner, qualities, **gates):
    """Ask absolute gates where the relative ones alone give a verdict; return what that changes."""
    finalists = [finalist("a", FASTER[verdict])]
    qualities = {"a": quality(0, 0.005), **qualities}
    alone, reasons, results = run_gates(finalists, qualities)
    assert (alone, results.winner) == (verdict, winner)
    answer, more, _ = run_gates(finalists, qualities, **gates)
    return answer, [reason for reason in more if reason not in reasons]


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


def test_an_absolute_gate_on_what_was_not_measured_is_inconclusive():
    source = {"latency": ()}
    verdict, reasons, _ = run_gates([finalist("a", "no")], {}, source=source, latency_ms={"batch1": 1.5})

    assert verdict is Verdict.INCONCLUSIVE
    assert "was not measured" in reasons[-1]


SMALL, LARGE = {"size_bytes": 1_000_000}, {"size_bytes": 3_000_000}
GOOD = {"a": quality(0, 0.005), "b": quality(0, 0.004)}


def test_a_finalist_that_misses_an_absolute_gate_gives_way_to_the_next():
    finalists, measured = [finalist("a", "yes"), finalist("b", "yes")], {"a": LARGE, "b": SMALL}
    verdict, reasons, results = run_gates(finalists, GOOD, measured=measured, size_mb=2)

    assert (verdict, results.winner) == (Verdict.PASS, "b")
    assert reasons[0].startswith("b is 2.00 times as fast")
    assert "the files of a take 3 MB, where 2 MB is allowed" in reasons


def test_where_every_good_finalist_misses_an_absolute_gate_the_run_fails():
    finalists, measured = [finalist("a", "yes"), finalist("b", "yes")], {"a": LARGE, "b": LARGE}
    verdict, _, results = run_gates(finalists, GOOD, measured=measured, source=SMALL, size_mb=2)

    assert (verdict, results.winner, results.best) == (Verdict.FAIL, None, "a")
    assert "source" not in results.judgements


def test_where_one_of_them_was_not_measured_the_run_is_inconclusive():
    finalists, measured = [finalist("a", "yes"), finalist("b", "yes")], {"a": LARGE, "b": {}}

    verdict, reasons, _ = run_gates(finalists, GOOD, measured=measured, size_mb=2)

    assert verdict is Verdict.INCONCLUSIVE
    assert "how many MB the files of b take was not measured, where 2 MB is allowed" in reasons


def test_what_is_merely_slower_is_no_reason():
    reasons = run_gates([finalist("a", "no")], {})[1]

    assert reasons == ["no candidate is 1.05 times as fast and good enough: the source model stays"]


@pytest.mark.parametrize(
    ("gates", "source", "expected"),
    [
        ({"size_mb": 2}, {"size_bytes": 3_000_000}, Verdict.FAIL),
        ({"size_mb": 2}, {"size_bytes": 2_000_000}, Verdict.KEEP),
        ({"memory_mb": 100}, {"peak_memory_bytes": 100_000_001}, Verdict.FAIL),
        ({"cold_start_ms": 5}, {"cold_start_ms": 5.0}, Verdict.KEEP),
        ({"cold_start_ms": 5}, {"cold_start_ms": float("nan")}, Verdict.INCONCLUSIVE),
        ({"cold_start_ms": 5, "size_mb": 2}, {"size_bytes": 3_000_000}, Verdict.FAIL),
    ],
)
def test_the_source_that_stays_must_hold_the_absolute_gates(gates, source, expected):
    assert run_gates([finalist("a", "no")], {}, source=source, **gates)[0] is expected


def test_a_finalist_that_may_not_be_published_is_not_scored():
    finalists = [finalist("a", "yes"), finalist("b", "yes")]
    verdict, reasons, results = run_gates(finalists, {"b": GOOD["b"]}, unpublishable=["a"])

    assert (verdict, results.winner, list(results.qualities)) == (Verdict.PASS, "b", ["b"])
    assert "a is faster, but its licence is for evaluation only: it is not published" in reasons


def test_a_finalist_that_cannot_be_scored_fails_and_its_reason_is_given_once():
    problem = "a failed on the gate split: it crashed"
    verdict, reasons, results = run_gates([finalist("a", "yes")], {"a": problem, "source": GOOD["a"]}, quality=0.9)

    assert (verdict, reasons.count(problem)) == (Verdict.KEEP, 1)
    assert results.qualities == {}
    assert [(row.name, row.judgement.value, row.reason) for row in results.judgements["a"]][2:] == [
        ("drop", "fails", problem),
        ("quality", "not asked", problem),
    ]
    assert results.judgements["a"][0].judgement is GateOutcome.HOLDS


def test_a_source_that_cannot_be_scored_was_not_measured():
    verdict, reasons, _ = run_gates([finalist("a", "no")], {"source": "it crashed"}, quality=0.9)

    assert verdict is Verdict.INCONCLUSIVE
    assert reasons[-1] == "the metric of source was not measured, although a limit of 0.9 is set"


def test_what_is_not_asked_says_why():
    finalists = [finalist("a", "no"), finalist("b", "yes"), finalist("c", "yes"), finalist("d", "yes")]
    qualities = {"b": quality(0.02, 0.05), "c": GOOD["b"]}
    _, _, results = run_gates(finalists, qualities, measured=dict.fromkeys("abcd", SMALL), size_mb=2)

    skipped = {name: rows[-1].reason for name, rows in results.judgements.items() if name != "c"}
    assert skipped == {
        "a": "it does not pass another gate",
        "b": "it does not pass another gate",
        "d": "c is faster and passes every gate",
    }
    assert results.qualities == qualities
    assert results.eligible == ["c"]


def test_every_gate_is_given_the_source(monkeypatch):
    given = []

    def make(name, **kind):
        def judge(limit, candidate, source):
            given.append((name, candidate.id, source.id))
            return (Judgement(name=name, candidate=candidate.id, judgement=GateOutcome.HOLDS, reason="it holds"),)

        return Gate(name=name, takes=float, field=Field(default=1.0, description="One."), judge=judge, **kind)

    gates = [make("fast", relative=True), make("good", relative=True, scored=True), make("small")]
    monkeypatch.setattr("kedro_hone.search.verdict.verdict.read_gates", lambda: gates)
    limits = SimpleNamespace(fast=1.0, good=1.0, small=1.0, require_improvement=False)
    shared = {"gates": limits, "source": Measurements(id="source"), "score": lambda _: GOOD["a"]}
    results, none = GateResults(**shared), GateResults(**shared)
    evaluate_gates(results, [Measurements(id="a")], {})
    assert (results.winner, results.best) == ("a", "a")
    evaluate_gates(none, [], {})
    decide_verdict(none, end_race(), confirmation(finalist("b", "no")))

    assert given == [(name, "a", "source") for name in ("fast", "good", "small")] + [("small", "source", "source")]


def test_every_finalist_has_a_row_for_every_gate_that_is_asked():
    finalists = [finalist("a", "no"), finalist("b", "yes"), finalist("c", "yes")]
    measured = dict.fromkeys("abc", SMALL)
    _, _, results = run_gates(finalists, {"b": GOOD["b"]}, measured=measured, size_mb=2)

    assert [(row.candidate, row.name, row.judgement.value) for row in results.list_judgements()] == [
        ("a", "other_load", "holds"),
        ("a", "speedup", "fails"),
        ("a", "drop", "not asked"),
        ("a", "size_mb", "not asked"),
        ("b", "other_load", "holds"),
        ("b", "speedup", "holds"),
        ("b", "drop", "holds"),
        ("b", "size_mb", "holds"),
        ("c", "other_load", "holds"),
        ("c", "speedup", "holds"),
        ("c", "drop", "not asked"),
        ("c", "size_mb", "not asked"),
    ]


QUALITIES = (quality(0, 0.005), quality(0, 0.02), quality(0.02, 0.05), "it crashed on the gate split")


@st.composite
def races(draw):
    names = "abc"[: draw(st.integers(0, 3))]
    number = st.one_of(st.none(), st.just(float("nan")), st.sampled_from([1.0, 5.0, 9.0]))
    return {
        "finalists": [finalist(name, draw(st.sampled_from(["yes", "no", "undecided", ""]))) for name in names],
        "qualities": {name: draw(st.sampled_from(QUALITIES)) for name in (*names, "source")},
        "measured": {name: {"cold_start_ms": draw(number)} for name in names},
        "source": {"cold_start_ms": draw(number)},
        "unpublishable": [name for name in names if draw(st.booleans())],
        "found": [validation(Status.DROPPED, "quality")] if draw(st.booleans()) else [],
        "cold_start_ms": draw(st.one_of(st.none(), st.just(5.0))),
        "require_improvement": draw(st.booleans()),
    }


@settings(deadline=None)
@given(races())
def test_a_verdict_never_says_more_than_the_gates(race):
    verdict, reasons, results = run_gates(race.pop("finalists"), race.pop("qualities"), **race)
    judged = {name: {row.judgement for row in rows} for name, rows in results.judgements.items()}
    assert reasons
    assert len(set(reasons)) == len(reasons)
    assert (verdict is Verdict.PASS) == (results.winner is not None)
    if results.winner:
        assert judged[results.winner] == {GateOutcome.HOLDS}
        assert results.winner not in race["unpublishable"]
    if verdict is Verdict.KEEP:
        assert judged.get("source", set()) <= {GateOutcome.HOLDS}
        assert all(
            GateOutcome.FAILS in judged[name] or name in race["unpublishable"] for name in set(judged) - {"source"}
        )
    if verdict is Verdict.FAIL and not race["require_improvement"]:
        assert any(GateOutcome.FAILS in found for found in judged.values())
    asked = {gate.name for gate in results.limits}
    assert all({row.name for row in rows} == asked for name, rows in results.judgements.items() if name != "source")


def test_a_doubt_of_the_winners_score_is_a_reason():
    doubted = quality(0, 0.005).model_copy(update={"doubt": "'rmse' is better with the targets of other rows"})
    verdict, reasons, _ = run_gates([finalist("a", "yes")], {"a": doubted})

    assert verdict is Verdict.PASS
    assert reasons[-1] == "doubtful: 'rmse' is better with the targets of other rows"
