"""Text in, text out: a pipeline over categories, from the data under DVC to the winner in the user's hands."""

from __future__ import annotations

import json
import os
from pathlib import Path

import numpy as np
import pytest
from pipeline_models import CLASSES, draw_columns, make_encoder, make_pipeline, write_model
from proof import TAGS, prove
from small_project import ROWS, Project, copy_project

import kedro_hone
from hone_runtime.values.outcome import OUTCOME
from kedro_hone.adaptors.registries.local.registry import LocalRegistry

pytestmark = pytest.mark.toolchain
INT8 = "onnx.onnxruntime_int8_dynamic.onnxruntime_session"


def run_source(path, feeds):
    import onnxruntime as ort

    session = ort.InferenceSession(path / "model.onnx", providers=["CPUExecutionProvider"])
    return dict(zip([output.name for output in session.get_outputs()], session.run(None, feeds), strict=True))


def as_feeds(columns):
    return {name: array[:, None] for name, array in columns.items()}


def write_splits(project: Project, path, **changes) -> None:
    for seed, (name, rows) in enumerate(ROWS.items()):
        columns = draw_columns(rows, seed=seed)
        labels = np.array(run_source(path, as_feeds(columns))["label"].tolist())
        file = project.splits / f"{name}.npz"
        file.unlink()
        np.savez(file, **columns, label=labels)
    project.track()
    project.set(**changes)


@pytest.fixture(scope="module")
def raced(template, tmp_path_factory) -> Project:
    """A run over a pipeline, to whichever verdict: what wins depends on the machine."""
    project = copy_project(template, tmp_path_factory.mktemp("text"))
    path = project.root / "models" / "animals"
    write_model(path, make_pipeline(width=512))
    write_splits(
        project,
        path,
        model={"uri": "models/animals"},
        program={"name": "tabular-classification"},
        toolchains=["onnxruntime", "openvino"],
    )
    done = project.call("run")
    assert done.code in {0, 11}, done.output
    return project


@pytest.fixture(scope="module")
def published(raced, tmp_path_factory) -> Path:
    """A candidate of that run as a published version."""
    artifact = OUTCOME.validate_python(raced.read_outcomes()[INT8])
    folder = tmp_path_factory.mktemp("registry")
    done = LocalRegistry(folder).publish(
        prove(folder, artifact, files=raced.store.locate(artifact)), name="animals", tags=TAGS, alias="honed"
    )
    return Path(done.uri)


@pytest.mark.nightly
def test_every_candidate_runs_or_says_why_not(raced):
    outcomes = {one["id"]: (one["status"], one.get("reason") or "") for one in raced.evidence["candidates"]}
    ran = {name for name, (status, _) in outcomes.items() if status not in {"refused", "failed"}}
    assert {"onnx.onnxruntime_session", INT8} <= ran, outcomes
    # A graph without attention is refused before that.
    refused = {name: why for name, (_, why) in outcomes.items() if "openvino" in name and "int8_fused" not in name}
    assert refused
    for name, reason in refused.items():
        assert outcomes[name][0] == "refused", outcomes
        assert "openvino takes no text" in reason
        assert "'color'" in reason
    assert [name for name, (status, _) in outcomes.items() if status == "failed"] == [], outcomes


def test_the_source_is_scored_by_its_text(raced):
    """The labels are the source's own predictions."""
    quality = raced.candidate("onnx.onnxruntime_session")["quality"]
    assert (quality["source"], quality["drop"]["estimate"], quality["n"]) == (1.0, 0.0, ROWS["search"])


@pytest.mark.parametrize("kind", [np.str_, object])
def test_the_learner_takes_and_gives_text(raced, published, kind):
    source = raced.root / "models" / "animals"
    feeds = as_feeds(draw_columns(9, seed=7))
    wanted = run_source(source, feeds)
    feeds["color"] = feeds["color"].astype(kind)
    learner = kedro_hone.load(published)
    found = learner(feeds)
    assert set(found) == {"label", "probabilities"}
    assert set(found["label"]) <= set(CLASSES)
    assert (found["label"].dtype, found["label"].shape) == (wanted["label"].dtype, wanted["label"].shape)
    assert np.mean(found["label"] == wanted["label"]) > 0.6
    assert learner(feeds["color"], size=feeds["size"])["label"].tolist() == found["label"].tolist()
    assert learner(feeds["color"].tolist(), feeds["size"])["label"].tolist() == found["label"].tolist()


def test_what_is_no_text_is_refused_before_it_becomes_some(published):
    learner = kedro_hone.load(published)
    size = np.zeros((2, 1), np.float32)
    for color in ([["red"], [None]], [[1], [2]], [["red"], [float("nan")]]):
        for given in (color, np.array(color, object)):
            with pytest.raises(TypeError, match=r"color .*the model takes text"):
                learner(color=given, size=size)
    with pytest.raises(TypeError, match=r"color is int64; the model takes text"):
        learner(color=np.zeros((2, 1), np.int64), size=size)


@pytest.mark.filterwarnings("ignore:.*Any type hint is inferred as AnyType:UserWarning")
def test_plain_mlflow_takes_text(published, monkeypatch):
    mlflow = pytest.importorskip("mlflow")
    pd = pytest.importorskip("pandas")
    monkeypatch.setenv("MLFLOW_DISABLE_TELEMETRY", "true")
    columns = draw_columns(9, seed=7)
    feeds = as_feeds(columns)
    wanted = kedro_hone.load(published)(feeds)["label"].tolist()
    model = mlflow.pyfunc.load_model(os.fspath(published))
    objects = {**feeds, "color": feeds["color"].astype(object)}
    for data in (feeds, objects, pd.DataFrame(columns)):
        assert model.predict(data)["label"].tolist() == wanted


@pytest.mark.nightly
def test_a_model_of_nothing_but_encoders(project):
    """No operator of the standard domain, as in an ordinal encoder or trees alone."""
    path = project.root / "models" / "encoder"
    write_model(path, make_encoder())
    for seed, (name, rows) in enumerate(ROWS.items()):
        file = project.splits / f"{name}.npz"
        file.unlink()
        # No two rows may be equal between the splits, so each has categories of its own that the encoder does not know.
        np.savez(file, color=np.array([f"{name} {seed} {row}" for row in range(rows)]))
    project.track()
    project.set(model={"uri": "models/encoder"}, toolchains=["onnxruntime"], program={"name": "fidelity"})
    done = project.call("run")
    assert done.code in {0, 11}, done.output
    candidates = {one["id"]: one for one in project.evidence["candidates"]}
    assert candidates["onnx.onnxruntime_session"]["status"] not in {"refused", "failed"}
    others = {name: one for name, one in candidates.items() if "int" in name}
    assert others
    assert {one["status"] for one in others.values()} == {"refused"}, json.dumps(others, indent=1)


def test_the_tensors_of_a_model_with_maps(tmp_path):
    """What the error's text tells people to call gives a model that is taken."""
    import onnx

    from hone_runtime.worker.packages import import_worker
    from kedro_hone.adaptors.onnxruntime.adaptor import TOOLCHAIN

    write_model(tmp_path / "model", make_pipeline(zipmap=True))
    worker = import_worker(str(TOOLCHAIN.worker))
    job = {"input": {"format": "onnx", "path": str(tmp_path / "model")}}
    reason = worker.describe(job)["refused"]
    call = reason[reason.index("onnx.utils.") :].replace("'model.onnx'", "one").replace("'tensors.onnx'", "two")
    (tmp_path / "tensors").mkdir()
    paths = {"one": str(tmp_path / "model" / "model.onnx"), "two": str(tmp_path / "tensors" / "model.onnx")}
    eval(call, {"onnx": onnx} | paths)  # noqa: S307 - what people are told to call
    job["input"]["path"] = str(tmp_path / "tensors")
    described = worker.describe(job)
    assert [spec["name"] for spec in described["outputs"]] == ["label", "probabilities"]
    assert [spec["dtype"] for spec in described["inputs"]] == ["str", "float32"]
