"""The tutorial as it is written, and ``kedro-hone optimize`` on its model and splits: the same winner and figures."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from hone_runtime.contract.catalogue import read_catalogue
from hone_runtime.values.artifact import Stage

pytestmark = [pytest.mark.toolchain, pytest.mark.nightly]

ROOT = Path(__file__).parents[2]
TUTORIAL = (ROOT / "docs" / "tutorial.md").read_text()
KEPT = {"onnxruntime.session", "onnxruntime.int8-dynamic"}
"""The candidates: so few that the same one wins twice on a busy machine."""
QUICK: dict[str, Any] = {
    "gates.other_load": 1,
    "race.seconds": 3,
    "confirm.finalists": 1,
    "confirm.looks": [3],
    "publish.enabled": False,
}


def read_block(start: str) -> str:
    """Return the first block of code from a line of the tutorial on."""
    (block,) = re.findall(r"^```\w*[^\n]*\n(.*?)^```$", TUTORIAL[TUTORIAL.index(start) :], re.MULTILINE | re.DOTALL)[:1]
    return block


def call(*command: str, folder: Path, **variables: str) -> str:
    done = subprocess.run(
        command, cwd=folder, capture_output=True, text=True, check=False, env={**os.environ, **variables}
    )
    assert done.returncode in {0, 10, 11}, f"{command}\n{done.stdout[-3000:]}\n{done.stderr[-5000:]}"
    return done.stdout


@pytest.fixture(scope="module")
def narrowed() -> dict[str, Any]:
    """The recipe's sections that leave out all candidates but two."""
    listed = [one for one in read_catalogue().adaptors.values() if one.toolchain.name in {"onnxruntime", "pytorch"}]
    others = [one.name for one in listed if one.stage is not Stage.CONVERT and one.name not in KEPT]
    return {"toolchains": ["pytorch", "onnxruntime"], "adaptors": {name: {"enabled": False} for name in others}}


@pytest.fixture(scope="module")
def project(tmp_path_factory, environments) -> Path:
    """The tutorial's folder, made by the tutorial's own files and commands; without its recipe."""
    folder = tmp_path_factory.mktemp("tutorial")
    shutil.copytree(ROOT / "conf", folder / "conf")
    for name in ("split.py", "train.py"):
        (folder / name).write_text(read_block(f'```python title="{name}"'))
    quiet = {"DVC_NO_ANALYTICS": "1", "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"}
    call(sys.executable, "-W", "ignore", "split.py", folder=folder)
    person = {f"GIT_{role}_{key}": "a@example.org" for role in ("AUTHOR", "COMMITTER") for key in ("NAME", "EMAIL")}
    call("bash", "-ec", read_block("```console\ncd data/cells"), folder=folder, **quiet, **person)
    call(sys.executable, "-W", "ignore", "train.py", folder=folder)
    catalog = yaml.safe_load((folder / "conf/base/catalog.yml").read_text())
    catalog |= yaml.safe_load(read_block("```yaml\ncalibration: {type"))
    (folder / "conf/base/catalog.yml").write_text(yaml.safe_dump(catalog))
    return folder


def run_recipe(project: Path, narrowed: dict[str, Any], **variables: str) -> dict[str, Any]:
    """Run the tutorial's recipe, narrowed, and return the evidence."""
    recipe = yaml.safe_load(read_block("```yaml\nhone:\n  model:\n    uri: models:/cells/1\n  program:"))
    hone = {**recipe["hone"], **narrowed}
    for key, value in QUICK.items():
        section, name = key.split(".")
        hone.setdefault(section, {})[name] = value
    (project / "conf/base/parameters.yml").write_text(yaml.safe_dump({"hone": hone}))
    call(sys.executable, "-m", "kedro_hone", "run", folder=project, **variables)
    return json.loads((project / "data/hone/latest/evidence.json").read_text())


def run_optimize(project: Path, narrowed: dict[str, Any], folder: Path, **variables: str) -> dict[str, Any]:
    """Run ``optimize`` for the same model and splits from another folder, and return the evidence."""
    splits = (f"{name}={project / 'data/cells' / name}.npz" for name in ("calibration", "search", "gate"))
    data = [word for split in splits for word in ("--data", split)]
    asked = ["--max-drop", "2%", "--min-speedup", "1.05", "--shape", "batch=1", "--shape", "batch=256"]
    settings = {key: json.dumps(value) for key, value in QUICK.items() if key != "publish.enabled"}
    settings["adaptors"] = json.dumps(narrowed["adaptors"])
    sets = [word for key, value in settings.items() for word in ("--set", f"{key}={value}")]
    folder.mkdir()
    command = [sys.executable, "-m", "kedro_hone", "hone", "optimize", "models:/cells/1", *data, *asked, *sets]
    command += ["--toolchains", "onnxruntime", "--folder", str(folder / "run"), "--json"]
    registry = {"MLFLOW_TRACKING_URI": f"sqlite:///{project / 'data/mlflow.db'}"}
    result = json.loads(call(*command, folder=folder, **variables, **registry))
    return json.loads((Path(result["folder"]) / "evidence.json").read_text())


def test_optimize_has_the_winner_and_the_gates_figures_of_the_tutorial(project, narrowed, environments, tmp_path):
    home = {"HONE_HOME": str(environments.root)}
    due = run_recipe(project, narrowed, **home)
    found = run_optimize(project, narrowed, tmp_path / "elsewhere", **home)
    for evidence in (due, found):
        assert {one["id"] for one in evidence["candidates"] if one["status"] == "measured"} > {"source"}
    assert found["source"]["uri"] == due["source"]["uri"]
    assert found["verdict"] == due["verdict"]
    for name in ("route", "format"):
        assert found["winner"][name] == due["winner"][name]
    kept = ("metric", "split", "source", "candidate", "drop", "limit", "n", "provable")
    figures = [{name: one[name] for name in kept} for one in due["quality"]]
    assert [{name: one[name] for name in kept} for one in found["quality"]] == figures
    assert figures[0]["n"] == 289
    assert figures[0]["limit"] == 0.02
    searched = [{one["id"]: one["quality"] for one in evidence["candidates"]} for evidence in (due, found)]
    assert searched[0] == searched[1]
