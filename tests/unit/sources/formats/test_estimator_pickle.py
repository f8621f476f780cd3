"""Pickles of estimators: recognized by the classes that they name, and not opened here."""

from __future__ import annotations

import json
import pickle
import zlib

import joblib
import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from hone_runtime.errors import HoneError
from kedro_hone.sources.detection import read_flavor

TRUSTED = frozenset({"pickle"})


def make_estimator():
    return make_pipeline(StandardScaler(), LogisticRegression()).fit([[0.0, 1.0], [1.0, 0.0], [2.0, 1.0]], [0, 1, 0])


@pytest.mark.parametrize("name", ["fraud.joblib", "fraud.pkl", "fraud.pickle"])
@pytest.mark.parametrize("protocol", [0, 2, 4, 5])
def test_one_file_is_a_model(tmp_path, name, protocol):
    joblib.dump(make_estimator(), tmp_path / name, protocol=protocol)
    flavor = read_flavor(tmp_path, trust=TRUSTED)
    assert (flavor.format, flavor.source, flavor.files) == ("sklearn", "estimator-pickle", ((name, "model.joblib"),))
    assert json.loads(dict(flavor.texts)["estimator.json"])["serialization"] == "joblib"


def test_what_pickle_writes_and_what_joblib_compresses(tmp_path):
    (tmp_path / "lr.pkl").write_bytes(pickle.dumps(make_estimator()))
    assert read_flavor(tmp_path, trust=TRUSTED).source == "estimator-pickle"
    (tmp_path / "lr.pkl").unlink()
    joblib.dump(make_estimator(), tmp_path / "small.joblib", compress=3)
    assert read_flavor(tmp_path, trust=TRUSTED).source == "estimator-pickle"


@pytest.mark.attack(
    what="a pickle that names an estimator's class and runs code", who="registry", stopped_by="nothing is unpickled"
)
@pytest.mark.parametrize("trust", [frozenset(), TRUSTED])
def test_its_instructions_are_listed_and_not_executed(tmp_path, trust):
    mark = tmp_path / "owned"
    (tmp_path / "model.pkl").write_bytes(f"csklearn.svm\nSVC\n0cos\nsystem\n(S'touch {mark}'\ntR.".encode())
    if trust:
        assert read_flavor(tmp_path, trust=trust).source == "estimator-pickle"
    else:
        with pytest.raises(HoneError, match="a pickle of an estimator") as raised:
            read_flavor(tmp_path, trust=trust)
        assert raised.value.slug == "pickle-not-trusted"
        assert "mlflow.sklearn.save_model(model, 'folder'" in raised.value.hint
    assert not mark.exists()


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"x",
        b"\x80",
        b"\x80\x04\x8c\xff",
        b"cos\nsystem\n.",
        b"\x93",
        b"I" + b"9" * 9999 + b"\n.",
        b"\x8b\xff\xff\xff\xff",
        b"c\xff\xff\n\xff\n.",
        b"Vsklearn.svm\n.",
        zlib.compress(b"csklearn.svm\nSVC\n."),
    ],
)
def test_another_pickle_is_none(tmp_path, content):
    (tmp_path / "model.pkl").write_bytes(content)
    with pytest.raises(HoneError) as raised:
        read_flavor(tmp_path, trust=TRUSTED)
    assert (raised.value.slug, raised.value.what) == ("model-unsupported", "The model is a pickle (model.pkl).")
    assert "mlflow.sklearn.save_model" in raised.value.hint


def test_of_several_none_is_meant(tmp_path):
    for name in ("a.joblib", "b.pkl"):
        joblib.dump(make_estimator(), tmp_path / name)
    with pytest.raises(HoneError, match="a pickle"):
        read_flavor(tmp_path, trust=TRUSTED)


def test_a_safer_model_next_to_it_is_taken(tmp_path):
    joblib.dump(make_estimator(), tmp_path / "model.joblib")
    (tmp_path / "model.onnx").write_bytes(b"x")
    assert read_flavor(tmp_path, trust=TRUSTED).source == "onnx"
