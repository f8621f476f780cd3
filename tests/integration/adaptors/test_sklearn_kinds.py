"""Estimators whose predictions cannot be judged are refused by kind, described by scikit-learn in this process."""

from __future__ import annotations

import json
import pickle

import numpy as np
import pytest
from sklearn.cluster import MiniBatchKMeans
from sklearn.covariance import EllipticEnvelope
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.linear_model import LogisticRegression, RidgeClassifierCV
from sklearn.mixture import GaussianMixture
from sklearn.model_selection import GridSearchCV
from sklearn.multiclass import OneVsRestClassifier
from sklearn.neighbors import KNeighborsClassifier, LocalOutlierFactor
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import OneClassSVM

from hone_runtime.worker.packages import import_worker
from kedro_hone.adaptors.sklearn import adaptor as module

worker = import_worker(str(module.TOOLCHAIN.worker))
MATRIX = {"name": "X", "dtype": "float64", "shape": ["batch", 3]}
X = np.random.default_rng(0).normal(size=(60, 3))
Y = (X > 0).astype(int)


@pytest.fixture
def describe(tmp_path):
    def describe(estimator):
        (tmp_path / "model.pkl").write_bytes(pickle.dumps(estimator))
        (tmp_path / "estimator.json").write_text(json.dumps({"file": "model.pkl", "serialization": "pickle"}))
        given = {"path": str(tmp_path), "format": "sklearn", "inputs": [MATRIX]}
        return worker.describe({"input": given, "threads": 1, "trust": ["pickle"]})

    return describe


@pytest.mark.parametrize(
    ("estimator", "noun"),
    [
        (OneClassSVM(), "OneClassSVM is an outlier detector"),
        (make_pipeline(StandardScaler(), EllipticEnvelope()), "EllipticEnvelope is an outlier detector"),
        (LocalOutlierFactor(), "LocalOutlierFactor is an outlier detector"),
        (make_pipeline(StandardScaler(), MiniBatchKMeans(3)), "MiniBatchKMeans is a clusterer"),
        (GaussianMixture(2), "GaussianMixture is a density estimator"),
    ],
)
def test_what_is_neither_a_classifier_nor_a_regressor_is_named(describe, estimator, noun):
    assert noun in describe(estimator.fit(X))["refused"]


@pytest.mark.parametrize(
    "estimator",
    [
        make_pipeline(StandardScaler(), OneVsRestClassifier(LogisticRegression())),
        MLPClassifier(4, max_iter=5),
        KNeighborsClassifier(),
        RidgeClassifierCV(),
        GridSearchCV(MLPClassifier(4, max_iter=5), {"alpha": [0.1]}, cv=2),
    ],
    ids=lambda one: type(one).__name__,
)
@pytest.mark.filterwarnings("ignore")
def test_several_labels_for_each_row_are_refused(describe, estimator):
    assert "predicts several labels for each row" in describe(estimator.fit(X, Y))["refused"]
    assert describe(estimator.fit(X, Y[:, 0]))["sklearn"]["kind"] == "classifier"


def test_columns_of_categories_reach_the_source_as_such():
    pd = pytest.importorskip("pandas")
    color = pd.Categorical(np.array(["red", "green", "blue"])[np.arange(60) % 3])
    frame = pd.DataFrame({"size": X[:, 0], "color": color})
    model = HistGradientBoostingClassifier(max_iter=20, min_samples_leaf=2).fit(frame, color == "red")
    specs = [{"name": "size", "dtype": "float64"}, {"name": "color", "dtype": "str"}]
    feeds = {"size": X[:7, :1], "color": np.asarray(color, dtype=str)[:7, None]}
    found = worker.estimators.predict(model, specs, feeds)
    np.testing.assert_allclose(found["probabilities"], model.predict_proba(frame[:7]), rtol=1e-6)
    assert worker.estimators.find_categories(model) == {"color": ["blue", "green", "red"]}
    assert worker.estimators.find_categories(HistGradientBoostingClassifier(max_iter=5).fit(X, Y[:, 0])) == {}


@pytest.mark.parametrize(
    ("name", "own"),
    [
        ("sklearn.tree._tree.Tree", True),
        ("sklearn.neighbors._kd_tree.KDTree64", True),
        ("numpy.random._generator.Generator", True),
        ("sklearn.tree.export_text", False),  # a function, which a step may call
        ("numpy.lib._datasource.DataSource", False),  # deletes the folder that its state names
        ("sklearn_extra.Step", False),
        ("os.system", False),
        ("Tree", False),
    ],
)
def test_classes_of_the_libraries_are_opened_where_their_state_does_no_harm(name, own):
    assert worker.estimators.is_own_class(name) is own
