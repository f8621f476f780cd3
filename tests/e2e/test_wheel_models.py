"""Models that people use, out of wheels: what is measured is right on fresh rows; others are refused."""

from __future__ import annotations

import numpy as np
import pytest
from wheel_models import REFUSED, RUN, make_project, run_rows, run_script, run_source

from hone_runtime.contract.catalogue import read_catalogue
from hone_runtime.learner.openers import open_learner

pytestmark = [
    pytest.mark.toolchain,
    pytest.mark.slow,
    pytest.mark.nightly,
    pytest.mark.filterwarnings("ignore:.*torch.jit:DeprecationWarning"),
]

ON = {"onnxruntime.session", "onnxruntime.int8-static", "openvino.ir", "openvino.f32"}
ON_NETWORKS = ON - {"onnxruntime.int8-static"} | {"pytorch.export", "pytorch.torchscript", "pytorch.onnx"}


@pytest.fixture
def prepare(template, tmp_path):
    """Return a function that makes a project with a model of a wheel, which tries few candidates in few rounds."""

    def prepare(model):
        project = make_project(template, tmp_path, model)
        mine = [name for name in read_catalogue().adaptors if name.partition(".")[0] in model.toolchains]
        on = ON_NETWORKS if model.is_network else ON
        project.set(
            adaptors={name: {"enabled": name in on} for name in mine},
            gates={"drop": 0.05, "other_load": 1},
            race={"rounds": 5},
        )
        return project

    return prepare


@pytest.mark.parametrize("model", RUN, ids=lambda model: model.name)
def test_what_was_raced_is_right_on_fresh_rows(prepare, model):
    project = prepare(model)

    project.run(code={0, 10, 11})

    found = {one["id"]: one for one in project.evidence["candidates"] if one["id"] != "source"}
    raced = [name for name, one in found.items() if one["rounds"]]  # it held; who is slow drops out of the race
    assert {"onnx.onnxruntime_session", *model.measured} <= set(raced), [one["reason"] for one in found.values()]
    feeds = model.draw(16, np.random.default_rng(99))
    expected = run_source(model, project, feeds)
    for name in raced:
        artifact = project.store.find_artifact(project.read_outcomes()[name]["digest"])
        learner = open_learner(artifact, project.store.locate(artifact), threads=1)
        for want, got in zip(expected, run_rows(lambda row, run=learner.run: run(row).values(), feeds), strict=True):
            pairs = zip(want.reshape(16, -1), got.reshape(16, -1), strict=True)
            assert min(one @ other / np.linalg.norm(one) / np.linalg.norm(other) for one, other in pairs) > 0.9, name


@pytest.mark.parametrize(("model", "said"), REFUSED, ids=lambda value: getattr(value, "name", ""))
def test_what_is_refused_is_refused_before_anything_is_built(prepare, model, said):
    project = prepare(model)

    done = project.call("run")

    assert done.code == 3, done.output
    assert said in " ".join(done.output.split())
    assert " built " not in done.output


def test_the_rows_of_the_documentation_are_those_that_its_model_takes(tmp_path):
    run_script("optimize-an-onnx-file.md", "rows.py", folder=tmp_path)

    for name, count in (("calibration", 64), ("search", 200), ("gate", 300)):
        with np.load(tmp_path / "data" / "files" / "splits" / f"{name}.npz") as split:
            assert split["bytes"].shape == (count, 2048)
            assert split["bytes"].dtype == np.int32
            assert 0 <= split["bytes"].min() < split["bytes"].max() == 256
