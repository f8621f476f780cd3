"""What converters overlook in estimators is found by comparing what they wrote with its source."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from conftest import make_once

from kedro_hone.adaptors.sklearn import adaptor as module

pytestmark = pytest.mark.toolchain

SCRIPT = Path(__file__).with_name("overlooked.py")
FEW = ("lightgbm one-vs-all", "neighbors by distance", "isotonic", "forest")
REFUSED = {
    "lightgbm one-vs-all": "probabilities differ",
    "lightgbm rf": "probabilities differ",
    "lightgbm linear": "variable differs",
    "lightgbm zeros": "probabilities differ",
    "lightgbm square root": "variable differs",
    "neighbors by distance": "probabilities differ",
}
NAMED = ("xgboost of names", "boosted votes", "mean of regressors", "strange votes")
TAKEN = (
    *("forest of holes", "power", "lightgbm dart", "xgboost poisson", "xgboost softmax", "xgboost parallel"),
    *("xgboost margins", "histograms of categories", "isotonic", "calibrated", "modified huber"),
)


@pytest.fixture(scope="session")
def convert(run_there, shared):
    """Return a function from names of estimators to what the worker made of them, all in one process."""

    def convert(name: str, *names: str) -> dict[str, dict]:
        def make(folder: Path) -> None:
            run_there(module.TOOLCHAIN, SCRIPT, folder, *names, wrote="made.json")

        return json.loads((make_once(shared / f"overlooked-{name}", make) / "made.json").read_text())

    return convert


def check(made: dict[str, dict], names) -> None:
    for name in names:
        if name in REFUSED:
            assert REFUSED[name] in made[name].get("refused", ""), (name, made[name])
            assert "row " in made[name]["refused"]
            assert "by the source" in made[name]["refused"]
        else:
            assert made[name].keys() == {"metadata"}, (name, made[name])


def test_what_a_converter_overlooked_is_refused_with_row_and_numbers(convert):
    check(convert("few", *FEW), FEW)


def test_columns_of_any_names_and_votes_are_converted_or_the_step_is_named(convert):
    made = convert("named", *NAMED)
    assert "the step 'nearest'" in made.pop("strange votes")["refused"]
    assert all(told.keys() == {"metadata"} for told in made.values()), made


@pytest.mark.nightly
def test_every_overlooked_parameter_is_refused_and_the_others_are_taken(convert):
    names = (*REFUSED, *TAKEN)
    check(convert("all", *names), names)
