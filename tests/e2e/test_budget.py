"""A search with a budget: what is left out, and what the next run finds."""

from __future__ import annotations

import shutil

import pytest

from hone_runtime.contract.hardware import read_host
from kedro_hone.recipe.prior import find_level

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


USUAL = """
toolchain: shop
versions:
  - version: ">=1"
    adaptors:
      shop.fast: {usual: {convolution: {AVX2: &fast {seconds: 0.1, speed: 1}, VNNI: *fast, AMX: *fast}}}
      shop.slow: {usual: {convolution: {AVX2: &slow {seconds: 7, speed: 0.02}, VNNI: *slow, AMX: *slow}}}
"""


@pytest.mark.nightly
@pytest.mark.skipif(find_level(read_host()) is None, reason="nothing is expected on a processor without AVX2")
def test_what_is_usually_far_slower_than_a_valid_candidate_is_not_tried(project):
    (worker,) = project.root.glob("src/*/toolchain/worker/__init__.py")
    worker.write_text(worker.read_text().replace('"inputs": [', '"operators": ["Conv"],\n        "inputs": [', 1))
    (worker.parents[1] / "capabilities.yml").write_text(USUAL)
    project.set(budget="default", toolchains="default")
    project.run("--pipelines", "assess", code={0, 11})
    said = "shop.slow: it takes about 7 s, and source.shop_fast is valid and usually more than 2 times as fast; "
    assert list_untried(project)[SLOW].startswith(said)

    project.set(budget="thorough")
    project.run("--pipelines", "assess", code={0, 11})
    assert list_untried(project) == {}
