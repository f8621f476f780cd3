"""Whether an estimator takes missing values is found by running it, described by scikit-learn in this process."""

from __future__ import annotations

import json
import pickle

import numpy as np
import pytest
from sklearn.compose import make_column_transformer
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder

from hone_runtime.interfaces.texts import MISSING
from hone_runtime.worker.packages import import_worker
from kedro_hone.adaptors.sklearn import adaptor as module

pd = pytest.importorskip("pandas")
worker = import_worker(str(module.TOOLCHAIN.worker))
PORTS = np.array(["Cherbourg", "Queenstown"], object)[np.arange(60) % 2]
FRAME = pd.DataFrame({"children": np.arange(60) % 4, "port": PORTS})
COLUMNS = [
    {"name": "children", "dtype": "int64", "shape": ["batch", 1]},
    {"name": "port", "dtype": "str", "shape": ["batch", 1]},
]
Y = np.arange(60) % 2
WITH_HOLES = FRAME.assign(port=FRAME["port"].where(np.arange(60) % 7 > 0))


def fit(text, numbers="passthrough", *, last=None, rows=FRAME):
    columns = make_column_transformer((numbers, ["children"]), (text, ["port"]))
    return make_pipeline(columns, last or LogisticRegression()).fit(rows, Y)


@pytest.fixture
def describe(tmp_path):
    def describe(estimator, inputs=COLUMNS):
        (tmp_path / "model.pkl").write_bytes(pickle.dumps(estimator))
        (tmp_path / "estimator.json").write_text(json.dumps({"file": "model.pkl", "serialization": "pickle"}))
        given = {"path": str(tmp_path), "format": "sklearn", "inputs": inputs}
        return worker.describe({"input": given, "threads": 1, "trust": ["pickle"]})

    return describe


@pytest.mark.parametrize(
    ("text", "rows", "taken"),
    [
        (OneHotEncoder(), FRAME, False),
        (OneHotEncoder(), WITH_HOLES, True),
        (OneHotEncoder(handle_unknown="ignore"), FRAME, True),
        (make_pipeline(SimpleImputer(strategy="most_frequent"), OneHotEncoder()), FRAME, True),
    ],
)
def test_a_missing_text_is_taken_where_the_source_takes_it(describe, text, rows, taken):
    assert describe(fit(text, rows=rows))["sklearn"].get("missing") == (["port"] if taken else None)


@pytest.mark.parametrize(("numbers", "dtype"), [("passthrough", "int64"), (SimpleImputer(), "float64")])
def test_a_whole_number_that_may_be_missing_has_nan(describe, numbers, dtype):
    assert describe(fit(OneHotEncoder(), numbers))["inputs"][0]["dtype"] == dtype


def test_a_missing_text_reaches_the_source_as_the_author_has_it():
    model = fit(
        make_pipeline(SimpleImputer(strategy="constant", fill_value="none"), OneHotEncoder(handle_unknown="ignore"))
    )
    feeds = {"children": np.array([[1], [2]]), "port": np.array([["Cherbourg"], [MISSING]])}
    found = worker.estimators.predict(model, COLUMNS, feeds)["probabilities"]
    rows = pd.DataFrame({"children": [1, 2], "port": ["Cherbourg", np.nan]})
    np.testing.assert_allclose(found, model.predict_proba(rows), rtol=1e-6)


def test_a_step_that_takes_none_for_a_missing_text_is_given_none():
    imputer = SimpleImputer(missing_values=None, strategy="constant", fill_value="none")
    assert worker.estimators.find_missing_value(imputer) is None
    assert np.isnan(worker.estimators.find_missing_value(SimpleImputer(missing_values="?")))


def test_columns_of_categories_are_inputs_without_a_signature(describe):
    frame = FRAME.assign(port=FRAME["port"].astype("category"))
    model = HistGradientBoostingClassifier(max_iter=5, min_samples_leaf=2).fit(frame, Y)
    told = describe(model, [])
    assert [(spec["name"], spec["dtype"]) for spec in told["inputs"]] == [("children", "float64"), ("port", "str")]
    assert told["sklearn"]["missing"] == ["port"]
