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
def clean_python(tmp_path):
    """Make an environment with the wheel, its dependencies and one extra, and nothing else."""
    checkout = tmp_path / "checkout"
    checkout.mkdir()
    ignored = shutil.ignore_patterns("__pycache__", "*.egg-info")
    for name in ("src", "adaptors", "nodes", "pipelines", "tests/conformance/suite"):
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
    subprocess.run([*install, f"{wheel}[onnxruntime]"], check=True, capture_output=True, text=True)
    return python


@pytest.mark.nightly
def test_the_winner_needs_only_its_runtime(published, clean_python, tmp_path):
    variables = {**os.environ, "MLFLOW_TRACKING_URI": published, "PYTHONWARNINGS": "ignore", "PYTHONPATH": ""}
    done = subprocess.run(
        [str(clean_python), "-c", CALL, "models:/matrix@honed"],
        cwd=tmp_path,
        env=variables,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout.splitlines()[-1])

    expected = (np.ones((5, 4), np.float32) @ WEIGHTS).tolist()
    assert found["pyfunc"] == expected
    assert found["learner"] == expected
    assert found["installed"] == []
    assert str(tmp_path) in found["version"]
