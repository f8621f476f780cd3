from __future__ import annotations

import pytest

from kedro_hone.core.values.measurement import BUDGET, RaceResult, Standing, Status, Validation
from kedro_hone.core.values.outcome import Candidate, Refused
from kedro_hone.nodes.gate import say_untried


def race(*slugs, validated=()):
    untried = tuple(
        Standing(id=str(place), status=Status.NOT_TRIED, rounds=0, slug=slug) for place, slug in enumerate(slugs)
    )
    refused = Refused(by="x", slug=BUDGET, reason="no time")
    candidate = Candidate(id="b", route=("x",), outcome=refused)
    return RaceResult(
        validations=tuple(Validation(candidate=candidate, status=Status.NOT_TRIED, slug=slug) for slug in validated),
        standings=(Standing(id="a", status=Status.MEASURED, rounds=5), *untried),
        source_latency=(), rounds=5, seconds=60.0, budget_ended=True, timings="sha256:0",
    )  # fmt: skip


def test_what_was_not_tried_is_counted():
    assert say_untried(race(BUDGET), stopped=False) == "1 candidate was not tried: the report says why"
    assert say_untried(race(BUDGET, validated=[BUDGET] * 2), stopped=True).startswith("3 candidates were not tried")


@pytest.mark.parametrize(("stopped", "hint"), [(False, True), (True, False)])
def test_a_larger_budget_is_named_where_it_helps(stopped, hint):
    said = say_untried(race(validated=[BUDGET]), stopped=stopped)
    assert said.endswith(", and a larger hone.budget tries more") is hint


@pytest.mark.parametrize("slugs", [(), ("",), ("format",)])
def test_nothing_is_said_of_what_was_left_out_for_another_reason(slugs):
    assert say_untried(race(*slugs, validated=slugs), stopped=False) == ""
