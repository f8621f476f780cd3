from __future__ import annotations

import pytest

from hone_runtime.values.measurement import Interval, Quality
from kedro_hone.search.comparison.agreement import Difference
from kedro_hone.search.validation.judgement import find_wrong

SCORED, CUT = "the search split", "rows cut to other sizes"


def make_scores():
    drop = Interval(estimate=0.0, low=0.0, high=0.0)
    return {SCORED: Quality(metric="accuracy", split="search", source=1.0, candidate=1.0, drop=drop, n=100)}


def make_found(*, largest, distance, scored=0.1):
    def make(most, mean):
        return [Difference(output="logits", discrete=False, of=100, largest=most, distance=mean, example="row 3")]

    return {SCORED: make(scored, scored), CUT: make(largest, distance)}


@pytest.mark.parametrize(
    ("largest", "distance", "trained", "wrong"),
    [
        (1.42, 0.05, False, "up to 1.42"),
        (1.42, 0.05, True, ""),
        (1.42, 0.9, True, "in the mean 0.9"),
        (0.4, 0.4, False, ""),
    ],
)
def test_what_was_trained_is_judged_by_the_mean_over_the_rows_without_scores(largest, distance, trained, wrong):
    """A student as good as its source was dropped for one text that was cut to an odd length."""
    found = find_wrong(make_found(largest=largest, distance=distance), make_scores(), trained=trained)
    assert (wrong in found) if wrong else found == ""


def test_rows_without_scores_may_differ_as_much_as_those_with_one():
    assert find_wrong(make_found(largest=0.8, distance=0.1, scored=0.9), make_scores()) == ""
