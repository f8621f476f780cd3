"""By which scores a classifier chooses a label, and which of them are the same but for rounding."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.datasets import make_classification
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC, LinearSVC

from hone_runtime.conversion.distances import find_ties
from hone_runtime.worker.packages import import_worker
from kedro_hone.adaptors.sklearn.adaptor import TOOLCHAIN

import_worker(str(TOOLCHAIN.worker))
from hone_sklearn import comparison  # noqa: E402 - of the worker that was imported


def fit(estimator, classes: int = 3):
    """Return a fitted estimator and its rows."""
    x, y = make_classification(300, 8, n_informative=6, n_classes=classes, random_state=0)
    return estimator.fit(x, y), x


@pytest.mark.parametrize("classes", [2, 3])
@pytest.mark.parametrize("c", [1e-9, 1.0])
def test_small_scores_are_no_ties(classes, c):
    model, x = fit(LinearSVC(C=c), classes)
    assert find_ties(comparison.find_scores(model, x)).sum() == 0


@pytest.mark.parametrize("size", [1e-9, 1.0, 1e9])
def test_equal_scores_are_ties_whatever_their_range(size):
    model, x = fit(LogisticRegression())
    model.coef_[2], model.intercept_[2] = model.coef_[1], model.intercept_[1]
    model.coef_ *= size
    model.intercept_ *= size
    scores = model.decision_function(x)
    tied = find_ties(comparison.find_scores(model, x))
    np.testing.assert_array_equal(tied, scores[:, 0] < scores[:, 1])


@pytest.mark.parametrize("classes", [2, 3])
def test_a_row_of_large_scores_makes_no_ties_of_the_others(classes):
    model, x = fit(LinearSVC(), classes)
    x[0] *= 1e9
    assert find_ties(comparison.find_scores(model, x)).sum() == 0


def test_scores_that_are_all_the_same_are_ties():
    model, x = fit(LinearSVC())
    model.coef_, model.intercept_ = np.zeros_like(model.coef_), np.ones_like(model.intercept_)
    assert find_ties(comparison.find_scores(model, x)).all()


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("probability", [False, True])
def test_scores_of_pairs_of_classes_are_not_taken_for_those_of_classes(probability):
    last = SVC(decision_function_shape="ovo", probability=probability, random_state=0)
    model, x = fit(make_pipeline(StandardScaler(), last))
    assert model.decision_function(x).shape == (300, 3)
    np.testing.assert_array_equal(comparison.find_scores(model, x), np.tile([0.0, 1.0, 2.0], (300, 1)))
