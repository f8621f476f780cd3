"""A published winner loads where only kedro-hone and the extra of its runtime are installed, as for its users."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from hone_runtime.values.artifact import TensorSpec
from kedro_hone.core.environments.requirements import read_pins
from kedro_hone.core.store.artifacts import Store

ROOT = Path(__file__).parents[2]
WEIGHTS = np.arange(12, dtype=np.float32).reshape(4, 3)

PUBLISH = """
import sys
from pathlib import Path

from proof import prove

from kedro_hone.adaptors.registries.mlflow.registry import MlflowRegistry
from hone_runtime.values.artifact import Artifact

artifact, uri, folder = sys.argv[1:]
tags = {"hone.source": "models:/matrix/1", "hone.source_digest": "sha256:0", "hone.recipe": "sha256:1"}
MlflowRegistry(uri).publish(
    prove(Path(folder), Artifact.model_validate_json(artifact)), name="matrix", tags=tags, alias="honed"
)
"""

CALL = """
import json, sys
from importlib.util import find_spec

import mlflow, numpy as np
import kedro_hone

rows = np.ones((5, 4), np.float32)
uri = sys.argv[1]
print(json.dumps({
    "pyfunc": np.asarray(mlflow.pyfunc.load_model(uri).predict(rows)).tolist(),
    "learner": np.asarray(kedro_hone.load(uri)(rows)).tolist(),
    "installed": [name for name in ("torch", "kedro", "dvc", "sklearn", "onnx") if find_spec(name)],
    "version": kedro_hone.__file__,
}))
"""

LOAD = """
import json, sys
from importlib.metadata import distributions

import numpy as np
import kedro_hone

folder, uri = sys.argv[1:]
found = np.asarray(kedro_hone.load(folder)(np.ones((5, 4), np.float32))).tolist()
try:
    kedro_hone.load(uri)
except Exception as error:
    refused = f"{error.slug}: {error.hint}"
names = sorted({one.name.lower() for one in distributions()} - {"pip", "setuptools"})
print(json.dumps({"learner": found, "refused": refused, "distributions": names}))
"""


@pytest.fixture
def published(tmp_path, monkeypatch):
    """Publish ``y = x @ WEIGHTS`` in ONNX Runtime to a registry in a temporary file."""
    import onnx
    from onnx import TensorProto, helper, numpy_helper

    monkeypatch.setenv("MLFLOW_DISABLE_TELEMETRY", "true")
    graph = helper.make_graph(
        [helper.make_node("MatMul", ["x", "w"], ["y"])],
        "matrix",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["batch", 4])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["batch", 3])],
        [numpy_helper.from_array(WEIGHTS, "w")],
    )
    files = tmp_path / "sealed"
    files.mkdir()
    onnx.save(
        helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=10), files / "model.onnx"
    )
    artifact = Store(tmp_path / "store").seal(
        files,
        format="onnx",
        inputs=(TensorSpec(name="x", dtype="float32", shape=("batch", 4)),),
        outputs=(TensorSpec(name="y", dtype="float32", shape=("batch", 3)),),
        runtime="onnxruntime",
        metadata={"interface": "onnx", "threads": 1},
    )
    uri = f"sqlite:///{tmp_path}/mlflow.db"
    variables = os.environ | {"PYTHONPATH": str(ROOT / "tests")}
    # In a process of its own: MLflow's SQLAlchemy store warns of deprecations, and keeps its file open.
    command = [sys.executable, "-c", PUBLISH, artifact.model_dump_json(), uri, str(tmp_path)]
    subprocess.run(command, check=True, capture_output=True, cwd=tmp_path, env=variables)
    return uri


@pytest.fixture
def install(tmp_path):
    """Make an environment, and return a function that installs the wheel with extras there and returns its Python."""
    checkout = tmp_path / "checkout"
    checkout.mkdir()
    ignored = shutil.ignore_patterns("__pycache__", "*.egg-info")
    for name in ("src", "adaptors", "docs/errors", "nodes", "pipelines", "tests/conformance/suite"):
        shutil.copytree(ROOT / name, checkout / name, symlinks=True, ignore=ignored)
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, checkout)
    build = [
        sys.executable,
        "-m",
        "build",
        "--wheel",
        "--no-isolation",
        "--outdir",
        str(tmp_path / "dist"),
        str(checkout),
    ]
    subprocess.run(build, check=True, capture_output=True)
    wheel = next((tmp_path / "dist").glob("*.whl"))
    subprocess.run([sys.executable, "-m", "venv", str(tmp_path / "venv")], check=True)
    python = tmp_path / "venv" / "bin" / "python"
    versions = tmp_path / "constraints"  # without digests: the wheel that was just built has none
    versions.write_text("\n".join(read_pins(ROOT / "requirements.lock")))
    install = [str(python), "-m", "pip", "install", "--quiet", "--constraint", str(versions)]

    def add(*extras: str) -> Path:
        subprocess.run([*install, f"{wheel}[{','.join(extras)}]"], check=True, capture_output=True, text=True)
        return python

    return add


def run(python: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([str(python), *arguments], capture_output=True, text=True, check=False)


def call(python: Path, code: str, *arguments: str, registry: str, folder: Path) -> dict:
    """Run code in the environment, and return what its last line has."""
    variables = {**os.environ, "MLFLOW_TRACKING_URI": registry, "PYTHONWARNINGS": "ignore", "PYTHONPATH": ""}
    command = [str(python), "-c", code, *arguments]
    done = subprocess.run(command, cwd=folder, env=variables, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


@pytest.mark.nightly
def test_the_winner_needs_only_its_runtime_and_its_registry(published, install, tmp_path):
    expected, uri = (np.ones((5, 4), np.float32) @ WEIGHTS).tolist(), "models:/matrix@honed"
    (folder,) = {path.parent.parent for path in tmp_path.rglob("artifact.json") if "store" not in path.parts}

    alone_python = install("onnxruntime")
    alone = call(alone_python, LOAD, str(folder), uri, registry=published, folder=tmp_path)

    assert alone["learner"] == expected
    assert alone["refused"].startswith("registry-not-installed: Install it: pip install 'kedro-hone[mlflow]'")
    assert len(alone["distributions"]) <= 12, alone["distributions"]

    explained = run(alone_python, "-m", "kedro_hone", "hone", "explain", "registry-not-installed")
    assert explained.stdout.startswith("# registry-not-installed")
    assert "pip install 'kedro-hone[pipeline]'" in run(alone_python, "-m", "kedro_hone", "hone", "verify", uri).stderr

    found = call(install("onnxruntime", "mlflow"), CALL, uri, registry=published, folder=tmp_path)

    assert found["pyfunc"] == expected
    assert found["learner"] == expected
    assert found["installed"] == []
    assert str(tmp_path) in found["version"]
