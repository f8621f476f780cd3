"""Somebody else's toolchains: what they make is built, checked and raced.

One is the folder of the guide with an entry point, the other a distribution with an environment of its own.
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from small_project import Project, copy_project, write_onnx_source

ROOT = Path(__file__).parents[2]
EXAMPLE = ROOT / "docs" / "examples" / "fp16"
DISTRIBUTION = ROOT / "docs" / "examples" / "mnn" / "src" / "mnn_tools"
FILES = ["adaptor.py", "requirements.in", "requirements.lock", "worker/hone_fp16/__init__.py"]
CANDIDATE = "onnx.fp16_weights.onnxruntime_session"
OTHERS = ("onnxruntime.int8-dynamic", "onnxruntime.int8-static", "onnxruntime.int4-weights")

pytestmark = [pytest.mark.toolchain, pytest.mark.nightly]


def install(site: Path) -> None:
    """Install the toolchain as pip would: its folder, and the entry point that its author declares."""
    for name in FILES:
        (site / "fp16_tools" / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(EXAMPLE / name, site / "fp16_tools" / name)
    info = site / "fp16_tools-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: fp16-tools\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[kedro_hone.adaptors]\nfp16 = fp16_tools.adaptor\n")


def install_distribution(site: Path) -> None:
    """Install the sample distribution as pip would; tests/integration/test_wheel.py builds and installs its wheel."""
    shutil.copytree(DISTRIBUTION, site / "mnn_tools", ignore=shutil.ignore_patterns("__pycache__"))
    info = site / "hone_mnn-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: hone-mnn\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[kedro_hone.adaptors]\nmnn = mnn_tools.adaptor\n")


def list_files(root: Path) -> list[str]:
    files = (path for path in root.rglob("*") if path.is_file() and path.suffix != ".pyc")
    return sorted(str(path.relative_to(root)) for path in files)


@pytest.fixture(scope="module")
def project(template, tmp_path_factory) -> Project:
    """A folder with a recipe, an ONNX model and data, after one run."""
    folder = tmp_path_factory.mktemp("stranger")
    project = copy_project(template, folder)
    shutil.rmtree(project.root / "src")
    (project.root / "pyproject.toml").unlink()
    write_onnx_source(project.root / "models" / "matrix")
    before = list_files(project.root)
    install(folder / "site")
    # One folder and one entry point; no file of ours, and none of the project's but the recipe.
    written = [name for name in list_files(folder / "site") if not name.endswith("METADATA")]
    assert written == ["fp16_tools-1.0.dist-info/entry_points.txt", *(f"fp16_tools/{name}" for name in FILES)]
    assert list_files(project.root) == before
    install_distribution(folder / "site")
    project.environment["PYTHONPATH"] = f"{project.variables['PYTHONPATH']}:{folder / 'site'}"
    project.set(
        toolchains=["onnxruntime", "fp16", "mnn"],
        adaptors={name: {"enabled": False} for name in OTHERS},
        shapes={"eight": {"batch": 8}, "sixty": {"batch": 60}},
    )
    project.first = project.call("run", "--pipelines", "assess", module="kedro_hone")
    return project


def read_events(project: Project, kind: str) -> list[dict]:
    lines = (project.runs[-1] / "events.jsonl").read_text().splitlines()
    return [event for event in map(json.loads, lines) if event["event"] == kind]


def test_the_run_comes_to_a_verdict(project):
    assert project.first.code in {0, 11}, project.first.output  # what is faster is a matter of the machine
    assert project.evidence["counts"]["builds"] >= 3


def test_its_worker_made_the_candidate(project):
    (step,) = project.runs[-1].glob("steps/*-fp16.weights")
    job = json.loads((step / "job.json").read_text())
    assert job["worker"] == str(project.root.parent / "site" / "fp16_tools" / "worker" / "hone_fp16" / "__init__.py")
    assert json.loads((step / "result.json").read_text())["notes"] == {"metadata": {"halved": 3}}
    digest = project.read_outcomes()["onnx.fp16_weights"]["digest"].removeprefix("sha256:")
    made, source = project.store.root / "objects" / digest / "files", project.root / "models" / "matrix"
    assert (made / "model.onnx").stat().st_size < 0.6 * (source / "model.onnx").stat().st_size


def test_it_is_validated_raced_and_in_the_report(project):
    candidate = project.candidate(CANDIDATE)
    assert candidate["route"][-2:] == ["fp16.weights", "onnxruntime.session"]
    assert candidate["status"] in {"measured", "dropped"}, candidate
    assert candidate["rounds"] > 0
    assert candidate["quality"]
    assert CANDIDATE in {event["candidate"] for event in read_events(project, "validation")}
    assert "fp16.weights" in (project.work / "latest" / "report.html").read_text()


def test_a_distribution_with_an_environment_of_its_own_races_too(project):
    candidate = project.candidate("onnx.mnn_cpu")
    assert candidate["status"] in {"measured", "dropped"}, candidate
    assert candidate["rounds"] > 0
    assert "mnn" in {one["toolchain"] for one in project.evidence["environments"]}
