import sys

import pytest
from sample import make_evidence

from hone_runtime.values.measurement import Interval
from kedro_hone.report.scales import scale_quality, scale_ratios, scale_speedups


def test_speedups_share_one_scale_with_the_source_against_itself():
    evidence = make_evidence()
    scale = scale_speedups(evidence, gate=1.05)
    assert [bar.control for bar in scale.bars] == [False, False, True, True]
    assert all(0 < bar.place.low < bar.place.estimate < bar.place.high < 100 for bar in scale.bars)
    (one, gate), (first, *_, control) = scale.marks, scale.bars
    assert one[0] < gate[0] < first.place.low
    assert control.place.low < one[0] < control.place.high
    assert scale_speedups(evidence.model_copy(update={"speedups": ()}), gate=1.05) is None


@pytest.mark.parametrize("limit", [None, 0.01])
def test_a_drop_is_on_a_scale_with_no_change_and_the_limit(limit):
    quality = make_evidence().quality[0].model_copy(update={"limit": limit})
    scale = scale_quality(quality)
    (bar,) = scale.bars
    assert 0 < bar.place.low < bar.place.estimate < bar.place.high < 100
    assert [label for _, label, _ in scale.marks] == ["no change", *(["limit 1.0"] if limit else [])]
    assert scale.marks[0][0] == bar.place.estimate  # nothing is lost


def test_a_drop_without_a_bound_fills_the_scale():
    endless = Interval(estimate=0.0, low=-sys.float_info.max, high=sys.float_info.max)
    quality = make_evidence().quality[0].model_copy(update={"metric": "r2", "drop": endless})
    (bar,) = scale_quality(quality).bars
    assert (bar.place.low, bar.place.high, bar.interval) == (0.0, 100.0, "unbounded to unbounded")
    assert 0 < bar.place.estimate < 100


def test_an_interval_of_two_launches_leaves_room_for_the_others():
    wild = Interval(estimate=136.0, low=6.0e-59, high=3.1e62)
    evidence = make_evidence()
    places = scale_ratios(evidence, {evidence.finalists[0].id: wild})
    assert places[evidence.finalists[0].id] == Interval(estimate=100.0, low=100.0, high=100.0)
    assert any(place.estimate > 1 for name, place in places.items() if name != evidence.finalists[0].id)
    first = evidence.speedups[0].model_copy(update={"ratio": wild})
    scale = scale_speedups(evidence.model_copy(update={"speedups": (first, evidence.speedups[1])}), gate=1.05)
    assert scale.bars[1].place.estimate > 4
    assert scale.bars[0].interval == "too few measurements for an interval"


def test_a_race_interval_is_on_a_scale_from_nothing_to_the_fastest():
    evidence = make_evidence()
    fastest, other, *rest = evidence.candidates[1:]
    half = Interval(**{end: number / 2 for end, number in fastest.speedup.model_dump(exclude={"confidence"}).items()})
    candidates = (fastest, other.model_copy(update={"speedup": half}), rest[0].model_copy(update={"speedup": None}))
    evidence = evidence.model_copy(update={"candidates": candidates})
    bars = scale_ratios(evidence, {})
    assert list(bars) == [fastest.id, other.id]
    assert (bars[fastest.id].high, bars[other.id].high) == (100.0, 50.0)
    assert all(0 < bar.low < bar.estimate < bar.high for bar in bars.values())
    confirmed = scale_ratios(evidence, {fastest.id: half, rest[0].id: fastest.speedup})
    assert confirmed == {fastest.id: bars[other.id], other.id: bars[other.id], rest[0].id: bars[fastest.id]}
