"""Every contract of the layers holds, and breaks when something is planted that it forbids."""

from __future__ import annotations

import ast
import os
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
CONTRACTS = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]

PLANTS = {
    "layers": ("core/store/steps.py", "from kedro_hone.recipe.schema import Recipe"),
    "core-rooms": ("core/store/steps.py", "from kedro_hone.core.environments.store import EnvironmentStore"),
    "core-light": ("core/store/artifacts.py", "import numpy"),
    "adaptors-independent": (
        "adaptors/openvino/adaptor.py",
        "from kedro_hone.adaptors.onnxruntime.adaptor import TOOLCHAIN",
    ),
    "registries-independent": (
        "adaptors/registries/local/registry.py",
        "from kedro_hone.adaptors.registries.mlflow.versions import read_uri",
    ),
    "nodes-independent": ("nodes/confirm.py", "from kedro_hone.nodes.race import race"),
    "adaptors-light": ("adaptors/pytorch/adaptor.py", "import torch"),
    "adaptors-unnamed": ("nodes/race.py", "from kedro_hone.adaptors.openvino.adaptor import TOOLCHAIN"),
    "gates-pure": ("search/gates/size.py", "from kedro_hone.recipe.schema import Recipe"),
    "workers-alone": ("nodes/race.py", "from kedro_hone.programs import worker"),
    "workers-strangers": ("programs/fidelity/__init__.py", "from hone_runtime.values.base import Artifact"),
    "kedro-at-the-edge": ("nodes/gate.py", "from kedro.io import DataCatalog"),
    "dvc-in-datasets": ("nodes/prepare.py", "import dvc.api"),
    "mlflow-in-registries": ("nodes/publish.py", "import mlflow"),
    "hub-in-its-registry": ("nodes/publish.py", "import huggingface_hub"),
    "learner-light": ("../hone_runtime/contract/catalogue.py", "import mlflow"),
    "kserve-in-the-server": ("serving/launch.py", "import kserve"),
    "server-alone": ("serving/server/ports.py", "from kedro_hone.serving.winner import ServedWinner"),
    "search-rooms": ("search/race/timings.py", "from kedro_hone.search.plan.budget import Phase"),
    "no-circles": ("datasets/errors.py", "from kedro_hone.datasets.dvc import HEAD"),
    "runtime-below": ("../hone_runtime/values/base.py", "import kedro_hone.core.stats"),
    "runtime-rooms": ("../hone_runtime/values/base.py", "from hone_runtime.contract import tags"),
    "runtime-light": ("../hone_runtime/sessions/shapes.py", "import pydantic"),
    "toolchains-in-workers": ("nodes/validate.py", "import onnxruntime"),
    "honesty-outside": ("../../benchmarks/honesty.py", "from kedro_hone.search.race.launches import measure_round"),
}
"""Contract to the file that is made to break it, below the package, and the line that does."""


@pytest.fixture
def project(tmp_path) -> Path:
    for part in ("src", "benchmarks"):
        shutil.copytree(ROOT / part, tmp_path / part, ignore=shutil.ignore_patterns("__pycache__", "*.egg-info"))
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    return tmp_path


def lint(project: Path, *contracts: str) -> subprocess.CompletedProcess[str]:
    chosen = [part for contract in contracts for part in ("--contract", contract)]
    return subprocess.run(
        [str(Path(sys.executable).with_name("lint-imports")), "--no-cache", "--no-logo", *chosen],
        cwd=project,
        env={**os.environ, "PYTHONPATH": str(project / "src")},
        capture_output=True,
        text=True,
        check=False,
    )


def test_the_layers_hold(project):
    done = lint(project)

    assert done.returncode == 0, done.stdout
    assert f"{len(CONTRACTS)} kept, 0 broken" in done.stdout


def test_the_runtime_names_no_module_of_the_pipelines_in_a_text():
    """An import by name is one that import-linter does not see. Groups of entry points have such names, too."""
    groups = {"kedro_hone.adaptors", "kedro_hone.registries"}
    texts = (
        node.value
        for path in (ROOT / "src/hone_runtime").rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
    )
    assert {text for text in texts if re.fullmatch(r"kedro_hone(\.\w+)+(:\w+)?", text)} == groups


def test_every_contract_has_a_plant():
    assert set(PLANTS) == {contract["id"] for contract in CONTRACTS}


@pytest.mark.parametrize("contract", PLANTS)
def test_a_planted_import_breaks_its_contract(project, contract):
    file, line = PLANTS[contract]
    path = project / "src" / "kedro_hone" / file
    with path.open("a") as source:
        source.write(f"\n{line}\n")

    done = lint(project, contract)

    assert done.returncode == 1, done.stdout
    assert "0 kept, 1 broken" in done.stdout
    assert line.split()[1].split(".")[0] in done.stdout
