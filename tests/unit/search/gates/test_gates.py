"""Each gate judges what was measured: at its limit, on either side of it, and where nothing was measured."""

from __future__ import annotations

import json
import math
import sys
from typing import Annotated

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import TypeAdapter, ValidationError

from hone_runtime.values.judgement import GateOutcome, Judgement
from hone_runtime.values.measurement import Interval, Latency, Quality, Speedup
from kedro_hone.core.gates import Measurements, read_gates
from kedro_hone.recipe.gates import read_section
from kedro_hone.search.ceilings import make_ceiling
from kedro_hone.search.gates import cold_start, drop, drops, latency, load, memory, quality, size, speedup, tail
from kedro_hone.search.verdict.verdict import misses_tail

SOURCE = Measurements(id="source")
ANY = st.floats(allow_nan=True, allow_infinity=True)
POSITIVE = st.floats(min_value=1e-6, max_value=1e9)
AT_MOST = {
    "size_mb": lambda number: {"size_bytes": round(number * 1e6)},
    "memory_mb": lambda number: {"peak_memory_bytes": round(number * 1e6)},
    "cold_start_ms": lambda number: {"cold_start_ms": number},
    "latency_ms": lambda number: {"latency": (Latency(shape="batch1", p50_ms=number, n=9),)},
    "latency_p99_ms": lambda number: {"latency": (Latency(shape="batch1", p50_ms=0.0, n=900, p99_ms=number),)},
}
GATES = {one.GATE.name: one.GATE for one in (cold_start, drop, latency, load, memory, quality, size, speedup, tail)}


def limit_of(gate, number):
    return {"batch1": number} if gate.per_shape else number


def evaluate(gate, limit, **measured):
    (judgement,) = gate.evaluate(limit, Measurements(id="a", **measured), SOURCE)
    return judgement


def make_quality(low, high, value=0.99, **changes):
    interval = Interval(estimate=(low + high) / 2, low=low, high=high)
    known = {"metric": "accuracy", "split": "gate", "source": 0.99, "candidate": value, "drop": interval, "n": 400}
    return Quality.model_validate({**known, **changes})


def test_gates_are_found_and_asked_in_their_order():
    names = [gate.name for gate in read_gates() if gate.name in GATES]  # others may be added without a change here

    absolute = ["cold_start_ms", "latency_ms", "latency_p99_ms", "memory_mb", "size_mb", "quality"]
    assert names == ["other_load", "speedup", "drop", *absolute]
    assert len(names) == len(GATES)


@pytest.mark.parametrize("name", GATES)
def test_without_a_limit_it_is_not_asked(name):
    for limit in (None, {}):
        judgement = evaluate(GATES[name], limit)
        assert (judgement.judgement, judgement.reason) == (GateOutcome.NOT_ASKED, "the recipe sets no limit")


def test_a_drop_without_an_end_is_said_in_words():
    judgement = evaluate(drop.GATE, 0.01, quality=make_quality(-sys.float_info.max, sys.float_info.max))
    assert judgement.judgement is GateOutcome.UNDECIDED
    assert "a drop without a known end where 0.01 is allowed" in judgement.reason
    assert len(judgement.reason) < 200


def test_other_metrics_have_limits_of_their_own():
    """The program's metric may hold and another one not, each by the whole of its interval."""
    limits = {"neighbour_agreement": 0.01, "f1_macro": 0.02, "other": 0.02}
    ends = [(0.0, 0.009), (0.021, 0.03), (0.01, 0.03)]
    others = [make_quality(*end, metric=name) for name, end in zip(limits, ends, strict=True)]
    candidate = Measurements(id="a", quality=make_quality(0.0, 0.001, others=others))
    rows = drops.GATE.evaluate(limits, candidate, SOURCE)
    assert [(row.judgement, row.unit, row.limit) for row in rows] == [
        ("holds", "neighbour_agreement", 0.01),
        ("fails", "f1_macro", 0.02),
        ("undecided", "other", 0.02),
    ]
    assert "f1_macro 0.9900 to 0.9900 on 400 rows, a drop of at most 0.0300 where 0.02 is allowed" in rows[1].reason
    (unscored,) = drops.GATE.evaluate(limits, Measurements(id="a"), SOURCE)
    assert unscored.judgement is GateOutcome.UNDECIDED


@pytest.mark.parametrize("name", AT_MOST)
@pytest.mark.parametrize(("number", "expected"), [(1.0, "holds"), (2.0, "holds"), (2.001, "fails")])
def test_at_most_the_limit_holds(name, number, expected):
    judgement = evaluate(GATES[name], limit_of(GATES[name], 2.0), **AT_MOST[name](number))

    assert judgement.judgement == expected
    assert (judgement.limit, judgement.measured) == (2.0, number)
    assert judgement.unit == {"mb": "MB", "ms": "ms"}[name.rpartition("_")[2]]
    assert f"where 2 {judgement.unit} is allowed" in judgement.reason
    assert " a" in f" {judgement.reason}"


@pytest.mark.parametrize("name", AT_MOST)
def test_what_was_not_measured_is_undecided(name):
    judgement = evaluate(GATES[name], limit_of(GATES[name], 2.0))

    assert (judgement.judgement, judgement.measured) == (GateOutcome.UNDECIDED, None)
    assert "was not measured" in judgement.reason


@settings(deadline=None)
@given(number=ANY, limit=POSITIVE)
@pytest.mark.parametrize("name", ["cold_start_ms", "latency_ms"])
def test_only_a_finite_number_up_to_the_limit_holds(name, number, limit):
    gate = GATES[name]
    judgement = evaluate(gate, limit_of(gate, limit), **AT_MOST[name](number))

    if math.isfinite(number):
        assert judgement.judgement is (GateOutcome.HOLDS if number <= limit else GateOutcome.FAILS)
    else:
        assert judgement.judgement is GateOutcome.UNDECIDED
    json.dumps(judgement.model_dump(mode="json"), allow_nan=False)


@settings(deadline=None)
@given(number=POSITIVE)
@pytest.mark.parametrize("name", ["cold_start_ms", "latency_ms"])
def test_the_limit_itself_holds_and_the_next_number_does_not(name, number):
    gate = GATES[name]

    assert evaluate(gate, limit_of(gate, number), **AT_MOST[name](number)).judgement is GateOutcome.HOLDS
    over = math.nextafter(number, math.inf)
    assert evaluate(gate, limit_of(gate, number), **AT_MOST[name](over)).judgement is GateOutcome.FAILS


@pytest.mark.parametrize(
    ("name", "default", "least", "refused"),
    [
        ("speedup", 1.05, 1.0, 0.99),
        ("drop", 0.01, 1e-9, 0.0),
        ("other_load", 0.25, 0.0, 1.001),
        ("size_mb", None, 1e-9, 0.0),
        ("memory_mb", None, 1e-9, 0.0),
        ("cold_start_ms", None, 1e-9, 0.0),
        ("latency_ms", {}, {"batch1": 1.0}, 1.0),
        ("quality", None, -1.0, "high"),
    ],
)
def test_the_limit_of_a_gate_has_a_default_and_bounds(name, default, least, refused):
    limit = TypeAdapter(Annotated[GATES[name].takes, GATES[name].field])
    assert GATES[name].field.get_default(call_default_factory=True) == default
    assert limit.validate_python(least) == least
    with pytest.raises(ValidationError):
        limit.validate_python(refused)


@pytest.mark.parametrize(
    ("limit", "share", "expected"),
    [
        (0.5, 0.0, "holds"),
        (0.5, 0.5, "holds"),
        (0.5, 0.501, "undecided"),
        (1.0, 1.0, "holds"),
        (0.0, 0.01, "undecided"),
    ],
)
def test_a_busy_machine_decides_nothing(limit, share, expected):
    judgement = evaluate(load.GATE, limit, other_load=share)
    assert judgement.judgement == expected
    assert (judgement.limit, judgement.measured, judgement.unit) == (limit, share, "of the cores")
    said = f"other processes took {share:g} of the cores' time, where hone.gates.other_load allows {limit:g}"
    assert judgement.reason == said + (
        ": run again when the machine is idle, or raise the limit if it never is" if expected == "undecided" else ""
    )


def test_load_that_the_system_does_not_tell_stands_in_no_way():
    judgement = evaluate(load.GATE, 0.5)
    assert (judgement.judgement, judgement.measured) == (GateOutcome.HOLDS, None)
    assert judgement.reason == "the load of other processes is not known"


def test_a_ceiling_is_made_of_one_number():
    gate = make_ceiling(
        "heat_kj",
        lambda candidate: candidate.cold_start_ms,
        unit="kJ",
        subject="the fan of {}",
        description="Absolute: heat.",
        per=1000.0,
    )
    assert (gate.name, gate.takes, gate.relative, gate.scored) == ("heat_kj", float | None, False, False)
    assert (gate.field.default, gate.field.description) == (None, "Absolute: heat.")
    limit = TypeAdapter(Annotated[gate.takes, gate.field])
    assert (limit.validate_python(0.5), limit.validate_python(None)) == (0.5, None)
    with pytest.raises(ValidationError):
        limit.validate_python(0.0)

    judgement = evaluate(gate, 2.0, cold_start_ms=2001.0)

    assert (judgement.name, judgement.candidate, judgement.judgement) == ("heat_kj", "a", "fails")
    assert (judgement.measured, judgement.limit, judgement.unit, judgement.shape) == (2.001, 2.0, "kJ", "")
    assert judgement.reason == "the fan of a takes 2.001 kJ, where 2 kJ is allowed"
    assert evaluate(gate, 2.0, cold_start_ms=2000.0).judgement is GateOutcome.HOLDS
    assert evaluate(gate, 2.0, cold_start_ms=None).judgement is GateOutcome.UNDECIDED


def test_a_ceiling_counts_in_the_unit_of_its_measure():
    gate = make_ceiling("one", lambda _: 3.0, unit="ms", subject="{}", description="One.", verb="lasts")
    assert evaluate(gate, 4.0).reason == "a lasts 3 ms, where 4 ms is allowed"


def test_latency_is_judged_at_each_shape_that_has_a_limit():
    rows = tuple(Latency(shape=shape, p50_ms=ms, n=9) for shape, ms in (("one", 1.0), ("many", 5.0), ("free", 99.0)))
    judgements = latency.GATE.evaluate({"one": 2.0, "many": 2.0}, Measurements(id="a", latency=rows), SOURCE)

    assert [(row.shape, row.judgement) for row in judgements] == [("one", "holds"), ("many", "fails")]
    assert judgements[0].reason == "a at one takes 1.000 ms, where 2 ms is allowed"


@settings(deadline=None)
@given(low=ANY, high=ANY, limit=POSITIVE)
def test_a_drop_holds_only_when_its_whole_interval_is_under_the_limit(low, high, limit):
    judgement = evaluate(drop.GATE, limit, quality=make_quality(low, high))

    assert (judgement.judgement is GateOutcome.HOLDS) == (high < limit)
    assert (judgement.judgement is GateOutcome.FAILS) == (low > limit and not high < limit)
    json.dumps(judgement.model_dump(mode="json"), allow_nan=False)


@settings(deadline=None)
@given(limit=POSITIVE)
def test_a_drop_whose_end_equals_the_limit_is_undecided(limit):
    assert evaluate(drop.GATE, limit, quality=make_quality(0.0, limit)).judgement is GateOutcome.UNDECIDED
    assert evaluate(drop.GATE, limit, quality=make_quality(limit, 2 * limit)).judgement is GateOutcome.UNDECIDED
    assert (
        evaluate(drop.GATE, limit, quality=make_quality(0.0, math.nextafter(limit, 0.0))).judgement is GateOutcome.HOLDS
    )
    over = math.nextafter(limit, math.inf)
    assert evaluate(drop.GATE, limit, quality=make_quality(over, over)).judgement is GateOutcome.FAILS


def test_a_judgement_on_a_drop_says_what_was_measured():
    assert evaluate(drop.GATE, 0.01, quality=make_quality(0.0, 0.004)) == Judgement(
        name="drop",
        candidate="a",
        judgement=GateOutcome.HOLDS,
        limit=0.01,
        measured=0.002,
        low=0.0,
        high=0.004,
        unit="accuracy",
        reason="a holds the quality gate: accuracy 0.9900 to 0.9900 on 400 rows, "
        "a drop of at most 0.0040 where 0.01 is allowed",
    )
    assert evaluate(drop.GATE, 0.01) == Judgement(
        name="drop",
        candidate="a",
        judgement=GateOutcome.UNDECIDED,
        limit=0.01,
        reason="a was not scored on the gate split",
    )


@settings(deadline=None)
@given(value=ANY, limit=st.floats(min_value=-1e6, max_value=1e6))
def test_a_quality_holds_from_the_limit_on(value, limit):
    judged = evaluate(quality.GATE, limit, quality=make_quality(0, 0.1, value=value)).judgement

    assert judged is (
        GateOutcome.UNDECIDED
        if not math.isfinite(value)
        else GateOutcome.HOLDS
        if value >= limit
        else GateOutcome.FAILS
    )


def test_a_judgement_on_quality_says_what_was_measured():
    assert evaluate(quality.GATE, 0.9, quality=make_quality(0, 0.1, value=0.95)) == Judgement(
        name="quality",
        candidate="a",
        judgement=GateOutcome.HOLDS,
        limit=0.9,
        measured=0.95,
        unit="accuracy",
        reason="accuracy of a is 0.9500, where at least 0.9 is required",
    )
    assert evaluate(quality.GATE, 0.9) == Judgement(
        name="quality",
        candidate="a",
        judgement=GateOutcome.UNDECIDED,
        limit=0.9,
        reason="the metric of a was not measured, although a limit of 0.9 is set",
    )


@settings(deadline=None)
@given(value=st.floats(min_value=0, max_value=1e6), limit=st.floats(min_value=0, max_value=1e6))
def test_a_quality_whose_lower_values_are_better_holds_up_to_the_limit(value, limit):
    found = make_quality(0, 0.1, value=value, metric="root_mean_squared_error", higher_is_better=False)
    judgement = evaluate(quality.GATE, limit, quality=found)

    assert judgement.judgement is (GateOutcome.HOLDS if value <= limit else GateOutcome.FAILS)
    assert f"where at most {limit:g} is required" in judgement.reason


@pytest.mark.parametrize(
    ("faster", "low", "expected"),
    [
        ("yes", 1.8, "holds"),
        ("no", 1.8, "fails"),
        ("undecided", 1.8, "undecided"),
        ("undecided", 1.02, "undecided"),
        ("", 1.8, "fails"),
    ],
)
def test_the_launches_decide_the_speedup(faster, low, expected):
    ratio = Interval(estimate=2.0, low=low, high=2.2)
    one = Speedup(shape="batch1", ratio=ratio, noise_floor=1.75, launches=7)
    judgement = evaluate(speedup.GATE, 1.05, faster=faster, speedup=one)

    assert judgement.judgement == expected
    assert (judgement.measured, judgement.low, judgement.high, judgement.shape) == (2.0, low, 2.2, "batch1")
    compared = "; 1.80 divided by the noise floor of 1.75 is 1.03, below 1.05"
    doubt = compared if faster == "undecided" and low == 1.8 else ""
    assert judgement.reason == f"a is 2.00 times as fast at batch1 ({low:.2f} to 2.20, 7 launches){doubt}"
    assert (judgement.name, judgement.candidate, judgement.limit, judgement.unit) == ("speedup", "a", 1.05, "times")


@pytest.mark.parametrize(
    ("low", "noise", "compared"),
    [
        (1.1, 1.05, "; 1.10 divided by the noise floor of 1.05 is 1.048, below 1.05"),
        (1.2, 1.05, ""),  # undecided since the launches were cut
    ],
)
def test_a_doubt_shows_the_comparison_that_decides(low, noise, compared):
    one = Speedup(shape="batch1", ratio=Interval(estimate=1.63, low=low, high=2.4), noise_floor=noise, launches=7)
    reason = evaluate(speedup.GATE, 1.05, faster="undecided", speedup=one).reason
    assert reason == f"a is 1.63 times as fast at batch1 ({low:.2f} to 2.40, 7 launches){compared}"


@pytest.mark.parametrize(
    ("low", "said"), [(6.0e-59, "2 launches, too few for an interval"), (1.2, "1.20 or more, 2 launches")]
)
def test_an_end_that_tells_nothing_is_not_in_the_reason(low, said):
    one = Speedup(shape="batch1", ratio=Interval(estimate=136.0, low=low, high=3.1e62), noise_floor=1.0, launches=2)
    reason = evaluate(speedup.GATE, 1.05, faster="undecided", speedup=one).reason
    assert reason == f"a is 136.00 times as fast at batch1 ({said})"


def test_what_could_not_be_confirmed_is_not_faster():
    judgement = evaluate(speedup.GATE, 1.05)

    assert (judgement.judgement, judgement.measured) == (GateOutcome.FAILS, None)
    assert judgement.reason == "a could not be confirmed"


@pytest.mark.parametrize(
    ("shares", "noise"), [([], None), ([None], None), ([0.25], None), ([0.1, 0.2501], 0.2501), ([0.9, 0.4], 0.9)]
)
def test_above_the_documented_share_a_winner_waits_whatever_the_recipe_allows(shares, noise):
    rows = [evaluate(load.GATE, 1.0, other_load=share) for share in shares]
    assert {row.judgement for row in rows} <= {GateOutcome.HOLDS}
    assert load.find_load(rows) == noise


def test_a_winner_that_waits_says_for_what():
    said = load.format_wait(0.62)
    assert "0.62 of the cores' time" in said
    assert "`kedro-hone run --from-nodes confirm`" in said


@pytest.mark.parametrize(
    ("measured", "judged", "words"),
    [
        ({"n": 700, "p90_ms": 5.0, "p99_ms": 19.0}, GateOutcome.HOLDS, "at the 99th percentile, takes 19.000 ms"),
        ({"n": 700, "p90_ms": 5.0, "p99_ms": 21.0}, GateOutcome.FAILS, "at the 99th percentile, takes 21.000 ms"),
        ({"n": 70, "p90_ms": 21.0}, GateOutcome.FAILS, "at the 90th percentile (of 70 calls, too few for the 99th),"),
        ({"n": 70, "p90_ms": 19.0}, GateOutcome.UNDECIDED, "592 calls are missing: 70 were timed"),
        ({"n": 661, "p90_ms": 19.0}, GateOutcome.UNDECIDED, "1 call is missing: 661 were timed"),
        ({"n": 9}, GateOutcome.UNDECIDED, "653 calls are missing: 9 were timed"),
        ({"n": 9}, GateOutcome.UNDECIDED, "more launches (hone.confirm.looks) or a larger hone.confirm.seconds"),
    ],
)
def test_a_tail_is_passed_by_the_99th_percentile_only_and_missed_by_the_90th_too(measured, judged, words):
    found = evaluate(tail.GATE, {"bulk": 20.0}, latency=(Latency(shape="bulk", p50_ms=1.0, **measured),))

    assert (found.judgement, found.shape) == (judged, "bulk")
    assert words in found.reason


@pytest.mark.parametrize(
    ("p99_ms", "limits", "misses"),
    [(21.0, {"bulk": 20.0}, True), (19.0, {"bulk": 20.0}, False), (None, {"bulk": 20.0}, False), (21.0, {}, False)],
)
def test_in_the_race_only_a_known_tail_is_missed(p99_ms, limits, misses):
    gates = read_section({"latency_p99_ms": limits})

    assert misses_tail([Latency(shape="bulk", p50_ms=1.0, n=700, p99_ms=p99_ms)], gates) is misses
