"""What becomes of the configurations of estimators that people have is what the documentation says."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from conftest import make_once

from kedro_hone.adaptors.sklearn import adaptor as module

pytestmark = pytest.mark.toolchain

SCRIPT = Path(__file__).with_name("configurations.py")
TOLD = Path(__file__).parents[3] / "docs" / "reference" / "estimators.json"
AGREEING = 1.0
"""The share of fresh rows: none goes another way in a tree."""
FEW = (
    "CalibratedClassifierCV over LinearSVC",
    "SimpleImputer and OneHotEncoder of text",
    "XGBClassifier(enable_categorical=True)",
    "SplineTransformer, LogisticRegression",
    "GridSearchCV over TfidfVectorizer",
    "BaggingClassifier(max_features=0.5) over LogisticRegression",
    "OneVsOneClassifier",
    "BaggingRegressor over StandardScaler, DecisionTreeRegressor",
    "StackingRegressor over VotingRegressor of StandardScaler, DecisionTreeRegressor",
    "AdaBoostRegressor over StandardScaler, DecisionTreeRegressor",
    "GridSearchCV over Ridge of two targets",
    "MultiOutputRegressor over Ridge",
)


@pytest.fixture(scope="session")
def convert(run_there, shared):
    """Return a function from names of configurations, or none for all, to what became of them."""

    def convert(*names: str) -> dict[str, dict]:
        def make(folder: Path) -> None:
            run_there(module.TOOLCHAIN, SCRIPT, folder, *names, wrote="made.json")

        return json.loads((make_once(shared / f"configurations-{len(names)}", make) / "made.json").read_text())

    return convert


def check(made: dict[str, dict], told: dict[str, str]) -> None:
    for name, one in made.items():
        if told[name] == "converted":
            assert one.get("converted", 0) >= AGREEING, (name, one)
        else:
            assert told[name] in one.get("refused", ""), (name, one)


def test_configurations_are_converted_or_refused_as_the_documentation_says(convert):
    told = json.loads(TOLD.read_text())
    check(convert(*FEW), told)


@pytest.mark.nightly
def test_every_configuration_is_converted_or_refused_as_the_documentation_says(convert):
    told, made = json.loads(TOLD.read_text()), convert()
    assert list(told) == list(made)
    check(made, told)
