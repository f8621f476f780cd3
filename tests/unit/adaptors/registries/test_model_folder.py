from __future__ import annotations

import json
import logging
from pathlib import Path

import numpy as np
import pytest
import yaml
from proof import prove

from hone_runtime.learner.manifest import read_artifact
from hone_runtime.values.artifact import Artifact, TensorSpec
from hone_runtime.values.manifest import Manifest
from kedro_hone.adaptors.registries.model_folder import LARGEST_EXAMPLE, make_signature, write_winner
from kedro_hone.sources.mlmodel import read_signature

X = TensorSpec(name="x", dtype="float32", shape=("batch", 4))
Y = TensorSpec(name="y", dtype="int64", shape=("batch", "y_1"))


def write(folder: Path, *, inputs=(X,), **metadata) -> dict:
    (folder / "sealed").mkdir()
    (folder / "sealed" / "model.onnx").write_bytes(b"x")
    artifact = Artifact(
        format="onnx",
        digest="",
        inputs=inputs,
        outputs=(Y,),
        runtime="onnxruntime",
        metadata=metadata,
    )
    artifact = artifact.model_copy(update={"digest": Manifest.measure(folder / "sealed", artifact.manifest()).digest})
    (folder / "model").mkdir()
    write_winner(folder / "model", prove(folder, artifact), name="digits")
    return yaml.safe_load((folder / "model" / "MLmodel").read_text())


def test_what_mlflow_reads_of_a_winner(tmp_path):
    from mlflow.models import Model

    write(tmp_path)
    model = Model.load(str(tmp_path / "model"))
    assert model.flavors["kedro_hone"] == {
        "artifact": "artifact",
        "format": "onnx",
        "runtime": "onnxruntime",
        "digest": read_artifact(tmp_path / "model" / "artifact").digest,
    }
    assert model.flavors["python_function"]["loader_module"] == "hone_runtime.learner.pyfunc"
    assert model.flavors["python_function"]["data"] == "artifact"
    assert model.signature.inputs.input_names() == ["x"]
    example = model.load_input_example(str(tmp_path / "model"))
    np.testing.assert_array_equal(example["x"], np.zeros((1, 4), np.float32))
    requirements = (tmp_path / "model" / "requirements.txt").read_text().split()
    assert requirements[0].startswith("kedro-hone[onnxruntime]==")
    conda = yaml.safe_load((tmp_path / "model" / "conda.yaml").read_text())
    assert conda["dependencies"][-1] == {"pip": requirements}


def test_nothing_of_the_current_folder_is_published(tmp_path, monkeypatch):
    """MLflow copies a project of uv that it finds there, with whatever its files say."""
    for name in ("uv.lock", "pyproject.toml"):
        (tmp_path / name).write_text("secret = 1")
    monkeypatch.chdir(tmp_path)
    write(tmp_path)
    assert sorted(path.name for path in (tmp_path / "model").iterdir()) == [
        "MLmodel",
        "artifact",
        "conda.yaml",
        "evidence",
        "hone-files.json",
        "input_example.json",
        "python_env.yaml",
        "requirements.txt",
        "serving_input_example.json",
    ]


def test_a_single_tensor_of_pytorch_goes_without_its_name(tmp_path):
    model = write(tmp_path, interface="pytorch")
    assert "name" not in json.loads(model["signature"]["inputs"])[0]
    assert json.loads((tmp_path / "model" / "input_example.json").read_text()) == [[0.0] * 4]


def test_a_large_example_is_left_out(tmp_path):
    model = write(tmp_path, inputs=(X.model_copy(update={"shape": ("batch", LARGEST_EXAMPLE + 1)}),))
    assert "signature" in model
    assert not (tmp_path / "model" / "input_example.json").exists()


@pytest.mark.parametrize("dtype", ["bfloat16", "str"])
def test_types_that_mlflow_cannot_say_leave_the_signature_out(tmp_path, dtype):
    model = write(tmp_path, inputs=(X.model_copy(update={"dtype": dtype}),))
    assert "signature" not in model
    assert not (tmp_path / "model" / "input_example.json").exists()


def test_signatures_round_trip():
    signature = make_signature([X], [Y], unnamed=False).to_dict()
    assert json.loads(signature["inputs"])[0]["tensor-spec"]["shape"] == [-1, 4]
    assert read_signature(signature) == ((X,), (Y,))


COLUMNS = json.dumps([{"type": "double", "name": "age", "required": True}])


def test_a_winner_of_an_estimator_has_the_signature_that_this_was_logged_with(tmp_path):
    model = write(tmp_path, interface="sklearn", sklearn={"signature": {"inputs": COLUMNS, "outputs": COLUMNS}})
    assert json.loads(model["signature"]["inputs"]) == json.loads(COLUMNS)
    assert not (tmp_path / "model" / "input_example.json").exists()


@pytest.mark.parametrize("said", [{}, {"signature": [1]}, {"signature": {}}])
def test_no_signature_is_made_up_for_an_estimator(tmp_path, said, caplog):
    model = write(tmp_path, interface="sklearn", sklearn=said)
    assert not (model.get("signature") or {}).get("inputs")
    assert not caplog.messages


@pytest.mark.parametrize(
    ("inputs", "cause"),
    [
        ("no JSON", "Expecting value"),
        ('[{"type": "quux", "name": "a"}]', "quux"),
        ("[1]", "subscriptable"),
        ('[{"type": "tensor", "tensor-spec": {"dtype": "foo", "shape": [1]}}]', "foo"),
    ],
)
def test_a_signature_that_mlflow_cannot_read_is_left_out_with_a_warning(tmp_path, inputs, cause, caplog):
    with caplog.at_level(logging.WARNING):
        model = write(tmp_path, interface="sklearn", sklearn={"signature": {"inputs": inputs}})
    assert not (model.get("signature") or {}).get("inputs")
    (said,) = [text for text in caplog.messages if "has no signature" in text]
    assert cause in said
