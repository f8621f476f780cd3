from __future__ import annotations

import pytest

from kedro_hone.core.values.measurement import BUDGET, RaceResult, Standing, Status
from kedro_hone.nodes.gate import say_budget


def race(*slugs, ended=True):
    untried = tuple(
        Standing(id=str(place), status=Status.NOT_TRIED, rounds=0, slug=slug) for place, slug in enumerate(slugs)
    )
    first = Standing(id="a", status=Status.MEASURED, rounds=5)
    return RaceResult(
        validations=(), standings=(first, *untried), source_latency=(), rounds=5, seconds=60.0, budget_ended=ended,
        timings="sha256:0",
    )  # fmt: skip


def test_what_was_not_tried_is_counted():
    assert say_budget(race(BUDGET), 60.0) == "the race's budget of 60 s was spent: 1 candidate was not tried"
    assert say_budget(race(*[BUDGET] * 3), 2.5).endswith("of 2.5 s was spent: 3 candidates were not tried")


@pytest.mark.parametrize("slugs", [(), ("",)])
def test_nothing_is_said_where_the_budget_left_nothing_untried(slugs):
    assert say_budget(race(*slugs), 60.0) == ""


def test_nothing_is_said_where_the_budget_did_not_end_it():
    assert say_budget(race(BUDGET, ended=False), 60.0) == ""
