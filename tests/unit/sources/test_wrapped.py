from __future__ import annotations

import json
import struct

import pytest
import yaml

from hone_runtime.errors import HoneError
from kedro_hone.sources.detection import read_flavor
from kedro_hone.sources.huggingface import documents
from kedro_hone.sources.source_format import MlModel, Pulled
from kedro_hone.sources.wrapped import explain_wrapped

NOTHING: frozenset[str] = frozenset()
PYFUNC = {"loader_module": "mlflow.pyfunc.model", "python_model": "python_model.pkl"}


@pytest.fixture
def pulled(tmp_path):
    """A PythonModel as ``mlflow.pyfunc.log_model`` writes it."""
    folder = tmp_path / "pulled"
    (folder / "artifacts").mkdir(parents=True)
    (folder / "MLmodel").write_text(yaml.safe_dump({"flavors": {"python_function": PYFUNC}}))
    (folder / "python_model.pkl").write_bytes(b"\x80\x05\x95 __main__ Wrapper")
    return folder


def refuse(folder):
    with pytest.raises(HoneError) as caught:
        read_flavor(folder, trust=NOTHING)
    assert caught.value.slug == "model-unsupported"
    return caught.value


def test_an_artifact_with_a_flavor_of_its_own_is_named_by_its_path(pulled):
    inner = pulled / "artifacts" / "net"
    inner.mkdir()
    (inner / "model.onnx").write_bytes(b"x")
    (inner / "MLmodel").write_text(yaml.safe_dump({"flavors": {"onnx": {"data": "model.onnx"}}}))
    error = refuse(pulled)
    assert "PythonModel of MLflow's" in error.what
    assert "artifacts/net is an ONNX file" in error.why
    assert "add /artifacts/net to the URI in hone.model.uri" in error.hint
    assert read_flavor(inner, trust=NOTHING).format == "onnx"


def test_a_bare_file_and_an_estimator_that_needs_trust(pulled):
    (pulled / "artifacts" / "model.onnx").write_bytes(b"x")
    assert "artifacts is an ONNX file" in refuse(pulled).why
    (pulled / "artifacts" / "model.onnx").unlink()
    inner = pulled / "artifacts" / "clf"
    inner.mkdir()
    (inner / "model.pkl").write_bytes(b"x")
    entry = {"pickled_model": "model.pkl", "serialization_format": "cloudpickle", "sklearn_version": "1.7"}
    (inner / "MLmodel").write_text(yaml.safe_dump({"flavors": {"sklearn": entry}}))
    said = refuse(pulled).why
    assert (
        "artifacts/clf is an estimator of scikit-learn, XGBoost or LightGBM (which needs `hone.trust: [pickle]`)"
        in said
    )


def test_all_the_trust_that_a_model_needs_is_named(pulled):
    inner = pulled / "artifacts" / "net"
    inner.mkdir()
    (inner / "config.json").write_text(
        json.dumps({"architectures": ["BertModel"], "model_type": "bert", "auto_map": {"AutoModel": "net.Net"}})
    )
    (inner / "pytorch_model.bin").write_bytes(b"x")
    assert "a model of Transformers (which needs `hone.trust: [pickle, remote-code]`)" in refuse(pulled).why


def test_two_of_them_are_both_named(pulled):
    for name in ("a", "b"):
        (pulled / "artifacts" / name).mkdir()
        (pulled / "artifacts" / name / "model.onnx").write_bytes(b"x")
    assert "artifacts/a is an ONNX file and artifacts/b is an ONNX file" in refuse(pulled).why


def test_a_pickle_alone_is_told_to_be_logged_by_its_flavor(pulled):
    (pulled / "artifacts" / "clf.pkl").write_bytes(b"x")
    error = refuse(pulled)
    assert "artifacts/clf.pkl is a pickle, which has no flavor" in error.why
    assert "mlflow.sklearn.log_model" in error.hint


def test_a_pipeline_of_kedro_is_named(pulled):
    name = b"kedro_mlflow.mlflow.kedro_pipeline_model KedroPipelineModel"
    (pulled / "python_model.pkl").write_bytes(b"\x80\x05\x95" + name)
    assert "a pipeline of Kedro's, by kedro-mlflow" in refuse(pulled).what


def test_a_python_model_outside_the_folder_is_not_read(pulled):
    entry = {**PYFUNC, "python_model": "../../../etc/passwd"}
    (pulled / "MLmodel").write_text(yaml.safe_dump({"flavors": {"python_function": entry}}))
    with pytest.raises(HoneError) as caught:
        read_flavor(pulled, trust=NOTHING)
    assert caught.value.slug == "model-corrupt"


def test_wrappers_in_wrappers_end(pulled):
    place = pulled
    for _ in range(40):
        place = place / "artifacts"
        place.mkdir(exist_ok=True)
        (place / "MLmodel").write_text(json.dumps({"flavors": {"python_function": PYFUNC}}))
    refuse(pulled)


@pytest.mark.attack(
    what="a PythonModel with hundreds of folders, or megabytes of JSON, for advice that takes minutes to compute",
    who="registry",
    stopped_by="few folders are looked at, once each, and none with a document that is large",
)
@pytest.mark.parametrize("found", [None, "an ONNX file"])
def test_few_folders_are_looked_at_once_each(pulled, found):
    for at in range(300):
        (pulled / "artifacts" / f"a{at:03}").mkdir()
    looked = []
    model = Pulled(folder=pulled, mlmodel=MlModel(flavors={"python_function": PYFUNC}))
    explain_wrapped(model, lambda place: looked.append(place) or (found if place.name != "artifacts" else None))
    assert len(looked) == len(set(looked)) <= 20


def test_all_folders_together_have_few_documents(pulled):
    for at in range(10):
        inner = pulled / "artifacts" / f"a{at}"
        inner.mkdir()
        (inner / "config.json").write_text('{"a": "' + "x" * 1_000_000 + '"}')
    looked = []
    model = Pulled(folder=pulled, mlmodel=MlModel(flavors={"python_function": PYFUNC}))
    explain_wrapped(model, looked.append)
    assert len(looked) == 4


@pytest.mark.parametrize(
    "name", ["config.json", "hone.json", "tokenizer_config.json", "MLmodel", "deep/1_Pooling/config.json"]
)
def test_a_folder_with_a_large_document_is_not_looked_at(pulled, name, monkeypatch):
    inner = pulled / "artifacts" / "net"
    (inner / name).parent.mkdir(parents=True)
    (inner / "model.onnx").write_bytes(b"x")
    assert "artifacts/net is an ONNX file" in refuse(pulled).why
    (inner / name).write_text('{"a": "' + "x" * (1 << 20) + '"}')
    read = []
    monkeypatch.setattr(documents, "read_document", read.append)
    assert "no model inside" in refuse(pulled).why
    assert not read


def test_a_folder_with_a_long_header_of_safetensors_is_not_looked_at(pulled):
    inner = pulled / "artifacts" / "net"
    inner.mkdir()
    (inner / "config.json").write_text(json.dumps({"architectures": ["BertModel"], "model_type": "bert"}))
    weights = inner / "model.safetensors"
    weights.write_bytes(struct.pack("<Q", 2) + b"{}")
    assert "artifacts/net is a model of Transformers" in refuse(pulled).why
    long = b"{}".ljust((1 << 20) + 1)
    weights.write_bytes(struct.pack("<Q", len(long)) + long)
    assert "no model inside" in refuse(pulled).why


@pytest.mark.attack(
    what="a folder in a PythonModel whose name has line breaks or escape sequences, for the advice that quotes it",
    who="registry",
    stopped_by="what cannot be printed in a name is escaped",
)
@pytest.mark.parametrize("bad", ["a\nnext:  run this", "a\x1b[2J", "a\u202eb", "a\tb"])
def test_names_in_the_advice_are_escaped(pulled, bad):
    inner = pulled / "artifacts" / bad
    inner.mkdir()
    (inner / "model.onnx").write_bytes(b"x")
    error = refuse(pulled)
    assert error.why.isprintable()
    assert error.hint.isprintable()
    assert repr(bad)[1:-1] in error.hint
    (inner / "model.onnx").rename(inner / "clf.pkl")
    assert refuse(pulled).why.isprintable()
