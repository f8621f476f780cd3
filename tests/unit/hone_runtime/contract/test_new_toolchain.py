"""A new toolchain is a folder: no list of names elsewhere has to learn of it."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from hone_runtime.contract.catalogue import list_builtin, read_catalogue

ROOT = Path(__file__).parents[4]
EXAMPLE = ROOT / "docs" / "examples" / "fp16"
WRITTEN = (
    "__init__.py",
    "adaptor.py",
    "capabilities.yml",
    "requirements.in",
    "requirements.lock",
    "worker/hone_{name}/__init__.py",
)
EDITED = ("pyproject.toml", "CHANGELOG.md", "tests/integration/adaptors/test_{name}.py")
"""Besides its folder: its library among the modules of the import contracts, a line for users, and its own test."""

LOOK = """
import json, sys
sys.path.insert(0, "docs")
from generated.adaptors import describe_support, make_index
from hone_runtime.contract.catalogue import read_catalogue
from kedro_hone.testing.checks import list_heavy
catalogue = read_catalogue()
print(json.dumps({
    "adaptors": [name for name, adaptor in catalogue.adaptors.items() if adaptor.toolchain.name == "fp16"],
    "broken": list(catalogue.broken), "heavy": sorted(list_heavy()), "index": make_index(catalogue),
    "support": describe_support(),
}))
"""


@pytest.fixture(scope="module")
def found(tmp_path_factory) -> dict[str, object]:
    """What a tree with one folder more finds."""
    tree = tmp_path_factory.mktemp("tree")
    ignored = shutil.ignore_patterns("__pycache__", "*.egg-info")
    for name in ("src", "docs/generated", "adaptors", "nodes", "pipelines", "tests/conformance/suite"):
        shutil.copytree(ROOT / name, tree / name, symlinks=True, ignore=ignored)
    folder = tree / "adaptors" / "fp16"
    shutil.copytree(EXAMPLE, folder, ignore=ignored)
    (folder / "__init__.py").write_text('"""A toolchain."""\n')
    shutil.copy(ROOT / "adaptors" / "iree" / "capabilities.yml", folder)
    text = (folder / "adaptor.py").read_text()
    named = text.replace("folder=", 'title="Half precision", modules=("halves",), folder=', 1)
    (folder / "adaptor.py").write_text(named)
    variables = {**os.environ, "PYTHONPATH": str(tree / "src")}
    command = [sys.executable, "-c", LOOK]
    done = subprocess.run(command, cwd=tree, env=variables, capture_output=True, text=True, check=True)
    return json.loads(done.stdout)


def test_a_folder_is_a_toolchain(found):
    assert found["adaptors"], found["broken"]
    assert "halves" in found["heavy"]
    assert "## Half precision" in found["index"]
    assert "| unverified |" in found["support"]
    assert "`fp16`" in found["support"]


def test_it_takes_at_most_nine_files():
    assert len({*WRITTEN, *EDITED}) <= 9


@pytest.mark.parametrize("name", sorted(list_builtin().keys() - {"composite"}))
def test_its_modules_are_kept_in_workers(name):
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
    (forbidden,) = (one["forbidden_modules"] for one in contracts if one["id"] == "toolchains-in-workers")
    assert set(read_catalogue().find_toolchain(name).modules) <= set(forbidden)
