"""A model of Keras, from its file to a winner that is called as it was."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

import numpy as np
import pytest
from proof import TAGS, prove
from small_project import Project, copy_project

import kedro_hone
from hone_runtime.values.outcome import OUTCOME
from kedro_hone.adaptors.registries.local.registry import LocalRegistry

pytestmark = [pytest.mark.toolchain, pytest.mark.large]

ROUTES = {
    "onnx.onnxruntime_session",
    "source.tensorflow_tflite.litert_xnnpack",
    "source.tensorflow_tflite.litert_int8_static.litert_xnnpack",
    "source.tensorflow_xla",
}


@pytest.fixture(scope="module")
def raced(template, keras_models, environments, digits_models, tmp_path_factory) -> Project:
    """A run over a ``.keras`` file."""
    project = copy_project(template, tmp_path_factory.mktemp("keras"))
    project.environment["HONE_HOME"] = str(environments.root)
    (project.root / "models" / "digits").mkdir(parents=True)
    shutil.copy(keras_models / "digits.keras", project.root / "models" / "digits")
    with np.load(digits_models / "search.npz") as rows:
        x, y = rows["x"].reshape(-1, 8, 8, 1), rows["y"]
    for name, part in (("calibration", slice(0, 64)), ("search", slice(64, 224)), ("gate", slice(224, None))):
        (project.splits / f"{name}.npz").unlink()
        np.savez(project.splits / f"{name}.npz", image=x[part], label=y[part])
    project.track()
    project.set(
        model={"uri": "models/digits"},
        program={"name": "image-classification"},
        toolchains=["tensorflow", "litert", "onnxruntime"],
        budget="thorough",
        shapes={"one": {"batch": 1}, "many": {"batch": 32}},
        gates={"drop": 0.05},
    )
    done = project.call("run")
    project.said = done.output
    assert done.code == 0, done.output
    return project


def test_each_route_was_built_and_valid(raced):
    status = {name: raced.candidate(name)["status"] for name in ROUTES}
    assert not {"refused", "failed"} & {*status.values()}, status


def test_the_verdict_is_a_winner_of_another_runtime(raced):
    evidence = raced.evidence
    assert evidence["verdict"] == "PASS", raced.said
    assert evidence["winner"]["candidate"] != "source"
    assert "in Keras on TensorFlow, model(x, training=False)" in raced.said.replace("\n", " ").replace("  ", " ")


@pytest.mark.parametrize("name", ["onnx.onnxruntime_session"])
def test_the_winner_is_called_as_the_source(raced, keras_models, tmp_path, name):
    artifact = OUTCOME.validate_python(raced.read_outcomes()[name])
    proof = prove(tmp_path, artifact, files=raced.store.locate(artifact))
    done = LocalRegistry(tmp_path / "registry").publish(proof, name="digits", tags=TAGS, alias="honed")
    with np.load(keras_models / "told.npz") as told:
        x, due = told["image"], told["logits"]
    model = kedro_hone.load(Path(done.uri))
    np.testing.assert_allclose(model.predict(x), due, atol=1e-4)
    np.testing.assert_allclose(model(x, training=False), due, atol=1e-4)
    assert "tensorflow" not in sys.modules
