"""No fresh row goes another way in a converted tree than in its source, whatever scales the numbers before."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import pytest

from kedro_hone.adaptors.sklearn import adaptor as module

pytestmark = pytest.mark.toolchain

SCRIPT = Path(__file__).with_name("precise_models.py")
FEW = (
    "HistGradientBoosting",
    "StandardScaler, RandomForest",
    "MinMaxScaler, XGBoost",
    "PowerTransformer, HistGradientBoosting",
    "ColumnTransformer, LightGBM",
    "RobustScaler, RandomForest of fp32",
    "StandardScaler, RandomForest of two classes",
    "KBinsDiscretizer of edges, RandomForest",
    "Binarizer of edges, RandomForest",
)


@pytest.fixture
def count(run_there, tmp_path):
    """Return a function from names of configurations, or none for all, to the fresh rows of each that differ."""
    return partial(run_there, module.TOOLCHAIN, SCRIPT, tmp_path, wrote="made.json")


def test_trees_behind_scaled_numbers_answer_fresh_rows_as_their_source(count):
    assert count(*FEW) == dict.fromkeys(FEW, 0)


@pytest.mark.nightly
def test_every_kind_of_trees_behind_every_step_answers_fresh_rows_as_its_source(count):
    found = count()
    assert {name: differ for name, differ in found.items() if differ != 0} == {}
    assert len(found) > len(FEW)
