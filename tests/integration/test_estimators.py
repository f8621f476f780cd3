"""Estimators that MLflow holds, from the registry to a winner that is called as they are."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from conftest import make_once
from proof import TAGS, prove
from small_project import Project, copy_project

import kedro_hone
from hone_runtime.values.outcome import OUTCOME
from kedro_hone.adaptors.registries.local.registry import LocalRegistry
from kedro_hone.adaptors.sklearn.adaptor import TOOLCHAIN

pytestmark = [pytest.mark.toolchain, pytest.mark.nightly]

TESTS = Path(__file__).parents[1]
SESSION = "onnx.onnxruntime_session"
NAMES = ("forest", "lightgbm")


@pytest.fixture(scope="module")
def python(environments) -> Path:
    return Path(environments.ensure(TOOLCHAIN).python)


@pytest.fixture(scope="module")
def models(shared, python) -> Path:
    (packages,) = python.parents[1].glob("lib/python3*/site-packages")

    def make(folder: Path) -> None:
        command = [sys.executable, "-W", "ignore", str(TESTS / "estimators.py"), str(packages), str(folder), *NAMES]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)

    return make_once(shared / "two-estimators", make)


def make_project(template, folder: Path, models: Path, environments, name: str, **changes) -> Project:
    """Return a project over an estimator; its labels are what the estimator predicts."""
    project = copy_project(template, folder)
    project.environment["HONE_HOME"] = str(environments.root)
    shutil.copytree(models / name, project.root / "models" / name)
    with np.load(models / f"{name}-rows.npz") as rows:
        x = rows["X"]
    with np.load(models / f"{name}-told.npz", allow_pickle=True) as told:
        y = told["label"]
    unique = np.sort(np.unique(x, axis=0, return_index=True)[1])
    labels = y.astype(str) if y.dtype.kind in "OU" else y
    for index, split in enumerate(("calibration", "search", "gate")):
        (project.splits / f"{split}.npz").unlink()
        np.savez(project.splits / f"{split}.npz", X=x[unique[index::3]], label=labels[unique[index::3]])
    project.track()
    recipe = {
        "model": {"uri": f"models/{name}"},
        "program": {"name": "tabular-classification"},
        "budget": "thorough",
        "toolchains": ["sklearn", "onnxruntime"],
        "trust": ["pickle"] if name == "forest" else [],
        "shapes": {"one": {"batch": 1}},
    }
    project.set(**recipe | changes)
    return project


@pytest.fixture(scope="module", params=NAMES)
def raced(request, template, models, environments, tmp_path_factory) -> Project:
    """A run over an estimator."""
    project = make_project(template, tmp_path_factory.mktemp(request.param), models, environments, request.param)
    project.name = request.param
    done = project.call("run")
    project.said = done.output
    assert done.code == 0, done.output
    return project


@pytest.fixture(scope="module")
def published(raced, tmp_path_factory) -> Path:
    artifact = OUTCOME.validate_python(raced.read_outcomes()[SESSION])
    folder = tmp_path_factory.mktemp("registry")
    done = LocalRegistry(folder).publish(
        prove(folder, artifact, files=raced.store.locate(artifact)), name="estimator", tags=TAGS, alias="honed"
    )
    return Path(done.uri)


def test_the_verdict_is_the_compiled_one(raced):
    evidence = raced.evidence
    winner = raced.candidate(SESSION)
    assert winner["status"] not in {"refused", "failed", "dropped"}, winner
    assert (evidence["verdict"], evidence["winner"]["candidate"]) == ("PASS", SESSION), raced.said


def test_the_winner_is_called_as_the_source(raced, published, models):
    with np.load(models / f"{raced.name}-rows.npz") as rows:
        x = rows["X"]
    with np.load(models / f"{raced.name}-told.npz", allow_pickle=True) as told:
        label, probabilities = told["label"], told["probabilities"]
    model = kedro_hone.load(published)
    # In fp32 a row may go the other way at a node of a tree: that is what the gate is for.
    assert np.mean(np.abs(model.predict_proba(x) - probabilities).max(axis=1) < 1e-5) > 0.99
    assert np.mean(model.predict(x) == label) > 0.99
    assert model.predict(x).dtype == label.dtype
    assert model.predict(x[:3].tolist()).tolist() == label[:3].tolist()
    assert model.predict(x.astype(np.float32)[:3]).tolist() == label[:3].tolist()
    assert model(x[:3]).tolist() == label[:3].tolist()
    assert model.classes_.tolist() == sorted(set(label.tolist()))
    assert model.n_features_in_ == x.shape[1]
    with pytest.raises(ValueError, match=r"the model takes \(batch, \d+\)"):
        model.predict(x[:, 1:])


PYFUNC = """
import json, sys
import mlflow
import numpy as np
folder, rows, method = sys.argv[1:]
if method == "predict_proba":  # as the version of a source that was logged so
    from hone_runtime.learner import pyfunc
    read = pyfunc.read_artifact
    def read_changed(files):
        artifact = read(files)
        artifact.metadata["sklearn"]["predict_fn"] = method
        return artifact
    pyfunc.read_artifact = read_changed
model = mlflow.pyfunc.load_model(folder)
x = np.load(rows)["X"]
assert model.metadata.get_input_schema().inputs[0].shape == (-1, x.shape[1])  # the source's own
print(json.dumps([model.predict(x).tolist(), model.predict(x[:2]).tolist()]))
"""


@pytest.mark.parametrize("method", ["predict", "predict_proba"])
def test_mlflow_gives_what_the_version_of_the_source_gives(raced, published, models, method):
    rows = models / f"{raced.name}-rows.npz"
    command = [sys.executable, "-W", "ignore", "-c", PYFUNC, str(published), str(rows), method]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    many, two = json.loads(done.stdout.splitlines()[-1])
    with np.load(rows) as x:
        due = getattr(kedro_hone.load(published), method)(x["X"]).tolist()
    assert (many, two) == (due, due[:2])


PLANTED = """
from kedro_hone.adaptors.sklearn import adaptor as estimators

PLANTED = replace(estimators.TOOLCHAIN, name="planted", folder=Path(__file__).parent / "planted", runs=frozenset())
ADAPTORS.append(replace(estimators.ADAPTORS[0], name="planted.onnx", toolchain=PLANTED))
"""

WRONG = """
    for node in model.graph.node:
        for attribute in node.attribute:
            if attribute.name == "nodes_featureids":
                attribute.ints[:] = [(column + 1) % 4 for column in attribute.ints]
"""


@pytest.mark.parametrize("seen", [True, False], ids=["before it is compared", "afterwards"])
def test_a_planted_wrong_conversion_is_caught(*, seen, template, models, environments, tmp_path):
    """The converter takes each column for the one before it: a valid file, with the right names, types and shapes."""
    project = make_project(
        template, tmp_path, models, environments, "lightgbm", toolchains=["planted", "onnxruntime"], gates={"drop": 0.1}
    )
    package = project.root / "src" / "shop"
    shutil.copytree(TOOLCHAIN.folder, package / "planted", ignore=shutil.ignore_patterns("__pycache__"))
    worker = package / "planted" / "worker" / "hone_planted" / "conversion.py"
    worker.parent.with_name("hone_sklearn").rename(worker.parent)
    text, mark = worker.read_text(), '    _keep_outputs(model, job["input"]["outputs"])\n'
    wrong = WRONG
    if not seen:
        mark, saved = "    if found.problem:\n", '    onnx.save(model, Path(job["output"], "model.onnx"))\n'
        wrong = WRONG + saved
    assert mark in text
    worker.write_text(text.replace(mark, wrong + mark))
    with (package / "adaptors.py").open("a") as stream:
        stream.write(PLANTED)
    if seen:
        project.run(code=11)  # nothing is left that could be compared
        reason = project.candidate(SESSION)["reason"]
        assert "differ from the source's: row" in reason, reason
        return
    project.run()
    assert project.evidence["verdict"] == "KEEP"
    candidate = project.candidate(SESSION)
    assert candidate["status"] == "dropped", candidate
    assert "fell from 1.0000" in candidate["reason"]
