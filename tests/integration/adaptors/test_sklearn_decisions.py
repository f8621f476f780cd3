"""A label is another one in no row, however sure the model is: it is chosen by the source's own scores."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import pytest

from kedro_hone.adaptors.sklearn import adaptor as module

pytestmark = pytest.mark.toolchain

SCRIPT = Path(__file__).with_name("decided_models.py")
FEW = (
    "OneVsRest of LogisticRegression, 4 classes",
    "OneVsRest of LinearSVC, 2 classes",
    "OneVsRest of SGD of text, 3 classes",
    "SGD by log_loss, 4 classes",
    "SGD by modified_huber, 4 classes",
    "LinearSVC, 4 classes",
    "Calibrated LinearSVC, 4 classes",
    "VotingClassifier without weights, 4 classes",
    "BaggingClassifier of some columns, 2 classes",
    "BaggingClassifier of some columns of LinearSVC, 4 classes",
)
NONE = [[0, 0]] * 3


@pytest.fixture
def count(run_there, tmp_path):
    """Return a function from names of configurations, or none for all, to the fresh rows of each that differ."""
    return partial(run_there, module.TOOLCHAIN, SCRIPT, tmp_path, wrote="made.json")


def test_labels_and_probabilities_of_rows_of_any_size_are_the_source_s(count):
    assert count(*FEW) == dict.fromkeys(FEW, NONE)


@pytest.mark.nightly
def test_so_are_those_of_every_classifier_that_decides_by_scores(count):
    found = count()
    assert {name: said for name, said in found.items() if said != NONE} == {}
    assert len(found) > len(FEW)
