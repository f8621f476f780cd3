"""A search with a budget: what is left out, what the next run finds, and what is learnt of earlier ones."""

from __future__ import annotations

import shutil

import pytest

SLOW = "source.shop_slow"


def list_untried(project) -> dict[str, str]:
    return {one["id"]: one["reason"] for one in project.evidence["candidates"] if one["status"] == "not_tried"}


@pytest.mark.nightly
def test_what_there_is_no_time_for_is_tried_by_the_next_run(project):
    project.set(budget=0.001)
    assert "INCONCLUSIVE" in project.run("--pipelines", "assess", code=11).output
    untried = list_untried(project)
    assert len(untried) >= 3
    assert all("of the budget of 0.001 s" in reason for reason in untried.values())

    project.set(budget=600)
    assert "PASS" in project.run("--pipelines", "assess").output
    assert list_untried(project) == {}


@pytest.mark.nightly
def test_of_what_is_built_one_at_least_is_compared_however_short_the_budget_is(project):
    project.run("--pipelines", "assess")
    shutil.rmtree(project.work / "store" / "values")  # where validations are remembered

    project.set(budget=0.001)
    assert "PASS" in project.run("--pipelines", "assess").output
    raced = [one for one in project.evidence["candidates"] if one["status"] == "measured" and one["route"]]
    assert len(raced) == 1
    assert set(list_untried(project))


@pytest.mark.nightly
def test_who_was_far_behind_on_similar_models_is_not_tried_again(project):
    for _ in range(2):
        project.run("--pipelines", "assess")
    assert SLOW not in list_untried(project)
    store = project.work / "store"
    for room in store.iterdir():
        if room.is_dir():
            shutil.rmtree(room)

    project.set(budget="default")
    project.run("--pipelines", "assess")

    assert "it is expected to gain less than 2% over that" in list_untried(project)[SLOW]
    assert project.evidence["verdict"] == "PASS"

    project.set(budget="thorough")
    project.run("--pipelines", "assess")
    assert list_untried(project) == {}
