from __future__ import annotations

import pytest

from hone_runtime.values.measurement import BUDGET, Choice, RaceResult, Standing, Status, Validation
from hone_runtime.values.outcome import Candidate, Refused
from kedro_hone.core.store.runs import RunFolder
from kedro_hone.nodes.gate import format_untried


@pytest.fixture
def run(tmp_path):
    return RunFolder(root=tmp_path, run_id="run", project=tmp_path)


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


def test_what_was_not_tried_is_counted(run):
    assert format_untried(race(BUDGET), run) == "1 candidate was not tried: the report has the reasons"
    assert format_untried(race(BUDGET, validated=[BUDGET] * 2), run).startswith("3 candidates were not tried")


def test_a_larger_budget_is_named_where_it_helps(run):
    assert format_untried(race(validated=[BUDGET]), run).endswith(", and a larger hone.budget tries more")


def test_where_a_faster_candidate_ended_the_search_no_number_of_seconds_tries_more(run):
    run.end_search("a is valid and usually faster")
    assert format_untried(race(validated=[BUDGET]), run).endswith(", and `hone.budget: thorough` tries more")


def test_what_was_left_out_by_expectation_is_not_called_a_spent_budget(run):
    end = "a is valid and usually more than 2 times as fast as this one; `hone.budget: thorough` tries it"
    run.end_search(end)
    result = race(validated=[BUDGET] * 2)
    slower = result.validations[0].model_copy(update={"reason": f"x: {end}"})
    said = format_untried(result.model_copy(update={"validations": (slower,)}), run)
    assert said == f"1 candidate was left out, being slower by expectation: {end}"
    both = format_untried(result.model_copy(update={"validations": (slower, result.validations[1])}), run)
    assert both.startswith(f"{said}; 1 candidate was not tried")


def test_of_a_choice_the_search_was_an_earlier_one_whose_end_is_unknown(run):
    choice = Choice(candidate="a", number=1, offered=2, confidence=0.95)
    chosen = race(validated=[BUDGET]).model_copy(update={"choice": choice})
    assert format_untried(chosen, run).endswith(", and `hone.budget: thorough` tries more")


def test_where_a_person_stopped_the_search_no_budget_is_named(run):
    run.stop()
    assert format_untried(race(validated=[BUDGET]), run) == "1 candidate was not tried: the report has the reasons"


@pytest.mark.parametrize("slugs", [(), ("",), ("format",)])
def test_nothing_is_said_of_what_was_left_out_for_another_reason(slugs, run):
    assert format_untried(race(*slugs, validated=slugs), run) == ""
