"""What the documentation says of the gate split's rows is what the statistics compute."""

from __future__ import annotations

import math
from pathlib import Path

import pytest
import yaml

from kedro_hone.core.stats.intervals import needed_rows, smallest_provable_drop
from kedro_hone.core.stats.levels import share_confidence
from kedro_hone.nodes.seed import SPLIT_ROWS
from kedro_hone.recipe.schema import read_recipe

ROOT = Path(__file__).parents[2]


def level(finalists: int) -> float:
    return share_confidence(0.95, finalists=finalists)


def points(rows: int, *, finalists: int) -> str:
    """The least limit that can be proved, in points, rounded up: what is rounded down cannot be proved."""
    return f"{math.ceil(10000 * smallest_provable_drop(rows, level(finalists))) / 100:.2f}"


def read(page: str) -> str:
    return " ".join((ROOT / page).read_text().split())


@pytest.fixture
def demo():
    return read_recipe(yaml.safe_load((ROOT / "conf" / "base" / "parameters.yml").read_text())["hone"])


def test_the_demo_asks_for_what_its_rows_can_prove(demo):
    rows, finalists = SPLIT_ROWS["gate"], demo.confirm.finalists
    assert smallest_provable_drop(rows, level(finalists)) < demo.gates.drop
    assert smallest_provable_drop(rows, level(finalists)) >= 0.01
    least, alone = points(rows, finalists=finalists), points(rows, finalists=1)
    said = f"{rows} gate images cannot prove less than {least} points with three finalists ({alone} with one)"
    assert finalists == 3
    assert said in read("conf/base/parameters.yml")
    assert f"cannot prove less than {least} points with three finalists ({alone} with one)" in read(
        "docs/concepts/measuring.md"
    )
    assert f"{rows} images stayed at" in read("README.md")
    assert f"more than {least} points is ruled out" in read("README.md")


def test_the_tutorials_rows():
    least = points(289, finalists=3)
    assert f"289 rows in the gate split can prove a loss of less than {least} points" in read("docs/tutorial.md")


@pytest.mark.parametrize(
    ("limit", "named"), [(0.02, "2 points"), (0.01, "1 point"), (0.005, "half a point"), (0.002, "0.2 points")]
)
def test_the_rows_that_a_limit_takes(limit, named):
    three, one = (needed_rows(limit, level(finalists)) for finalists in (3, 1))
    assert f"| {named} | {three:,} | {one:,} |" in read("docs/concepts/measuring.md")


def test_the_page_of_the_error_has_the_same_rows():
    page = read("docs/errors/gate-unprovable.md")
    least = [needed_rows(limit, level(3)) for limit in (0.02, 0.01, 0.005)]
    assert f"{least[0]} rows are the least for a limit of 0.02, {least[1]} for 0.01 and {least[2]:,} for 0.005" in page
    assert f"Use at least {needed_rows(0.01, level(3))} rows" in page
    assert f"still reaches {smallest_provable_drop(450, level(3)):.4g} " in page


def test_a_quick_trial_is_bounded_and_publishes_nothing():
    page = (ROOT / "docs" / "reference" / "recipe.md").read_text()
    text = page.partition("## A quick trial run")[2].partition("```yaml\n")[2].partition("```")[0]
    trial = read_recipe({"model": {"uri": "models:/digits/1"}, **yaml.safe_load(text)["hone"]})
    usual = read_recipe({"model": {"uri": "models:/digits/1"}})
    assert trial.confirm.looks[-1] * trial.confirm.finalists < usual.confirm.looks[0]
    assert trial.race.seconds < usual.race.seconds
    assert not trial.publish.enabled


def test_the_price_of_another_number_of_threads_is_said_at_the_key():
    (row,) = (
        line for line in (ROOT / "docs" / "reference" / "recipe.md").read_text().splitlines() if "| `threads`" in line
    )
    assert "builds everything again" in row
