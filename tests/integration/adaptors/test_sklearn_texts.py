"""Estimators that take texts and no table, and the names of columns, described by scikit-learn in this process."""

from __future__ import annotations

import json
import pickle

import pytest
from sklearn.feature_extraction.text import CountVectorizer, TfidfVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from hone_runtime.worker.imports import load_file
from kedro_hone.adaptors.sklearn import adaptor as module

worker = load_file("hone_worker_of_estimators", str(module.TOOLCHAIN.worker))
TEXTS, NUMBERS = ["good film", "bad film", "good", "bad"], [[1.0], [2.0], [3.0], [4.0]]
TEXT = {"name": "text", "dtype": "str", "shape": ["batch", 1]}


@pytest.fixture
def describe(tmp_path):
    def describe(estimator, *inputs, columns=None):
        (tmp_path / "model.pkl").write_bytes(pickle.dumps(estimator))
        reference = {"file": "model.pkl", "serialization": "pickle"}
        (tmp_path / "estimator.json").write_text(json.dumps(reference))
        given = {"path": str(tmp_path), "format": "sklearn", "inputs": list(inputs)}
        given["metadata"] = {"sklearn": {"columns": columns}} if columns else {}
        return worker.describe({"input": given, "threads": 1, "trust": ["pickle"]})

    return describe


@pytest.mark.parametrize("inputs", [(), (TEXT,)], ids=["no signature", "signature"])
@pytest.mark.parametrize("nested", [False, True])
@pytest.mark.parametrize("kind", [TfidfVectorizer, CountVectorizer])
def test_a_list_of_texts_is_no_table(describe, kind, nested, inputs):
    first = make_pipeline(kind(), "passthrough") if nested else kind()
    estimator = make_pipeline(first, LogisticRegression()).fit(TEXTS, [1, 0, 1, 0])
    assert f"{kind.__name__} takes a list of texts" in describe(estimator, *inputs)["refused"]


@pytest.mark.parametrize("first", ["passthrough", StandardScaler()])
def test_tables_are_taken(describe, first):
    estimator = make_pipeline(first, LogisticRegression()).fit(NUMBERS, [1, 0, 1, 0])
    matrix = {"name": "X", "dtype": "float64", "shape": ["batch", 1]}
    assert describe(estimator, matrix)["inputs"] == [matrix]


def test_the_names_of_columns_are_the_estimators_or_else_the_signatures(describe):
    pd = pytest.importorskip("pandas")
    rows = pd.DataFrame({"1st_size": [1.0, 2.0, 3.0, 4.0], "width": [4.0, 1.0, 2.0, 3.0]})
    matrix = {"name": "X", "dtype": "float64", "shape": ["batch", 2]}
    known, unknown = (LogisticRegression().fit(x, [1, 0, 1, 0]) for x in (rows, rows.to_numpy()))
    assert describe(known, matrix)["sklearn"]["feature_names_in"] == ["1st_size", "width"]
    assert describe(known, matrix, columns=["a", "b"])["sklearn"]["feature_names_in"] == ["1st_size", "width"]
    assert describe(known, matrix, columns=["1st size", "width"])["sklearn"]["feature_names_in"] == [
        "1st size",
        "width",
    ]
    said = describe(unknown, matrix, columns=["a", "b"])["sklearn"]
    assert said["columns"] == ["a", "b"]
    assert "feature_names_in" not in said
    assert "columns" not in describe(unknown, matrix)["sklearn"]
