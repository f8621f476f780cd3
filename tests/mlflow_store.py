"""A real MLflow store in a temporary SQLite file, and tiny models to put there: fixtures that tests import."""

from __future__ import annotations

import shutil
import subprocess
import sys
from functools import partial
from pathlib import Path

import numpy as np
import proof
import pytest

from hone_runtime.values.artifact import Artifact, TensorSpec
from hone_runtime.values.manifest import Manifest
from kedro_hone.core.locks import hold_lock

WARNINGS = (
    # What MLflow does with SQLAlchemy 2.1; nothing of ours can change it.
    r"ignore:The ..noload.. loader strategy is deprecated:DeprecationWarning",
    # MLflow says this of its own classes while it imports them.
    "ignore:.*Any type hint is inferred as AnyType:UserWarning",
)
MAKE_TABLES = """
import sys
from mlflow.store.db.utils import _initialize_tables
from sqlalchemy import create_engine
_initialize_tables(create_engine(f"sqlite:///{sys.argv[1]}"))
"""
WEIGHTS = np.arange(12, dtype=np.float32).reshape(4, 3)


@pytest.fixture(scope="session")
def empty_database(shared) -> Path:
    """What MLflow makes of a file that is not there, for which it runs all its migrations: its tables, and no row."""
    path = shared / "empty-mlflow.db"
    with hold_lock(shared / "empty-mlflow.lock", purpose="making an empty database"):
        if not path.exists():
            subprocess.run([sys.executable, "-W", "ignore", "-c", MAKE_TABLES, f"{path}.part"], check=True)
            Path(f"{path}.part").rename(path)
    return path


@pytest.fixture(autouse=True)
def tracking_uri(empty_database, tmp_path, monkeypatch):
    yield set_registry(empty_database, tmp_path, monkeypatch)
    close_stores()


def set_registry(empty_database, tmp_path, monkeypatch):
    """Let ``models:/`` mean an empty store in the test's folder, which is the current one then; return its URI."""
    shutil.copy(empty_database, tmp_path / "mlflow.db")
    uri = f"sqlite:///{tmp_path}/mlflow.db"
    monkeypatch.setenv("MLFLOW_DISABLE_TELEMETRY", "true")
    monkeypatch.setenv("DO_NOT_TRACK", "1")
    monkeypatch.setenv("MLFLOW_TRACKING_URI", uri)
    monkeypatch.setenv("HONE_HOME", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path)
    return uri


def close_stores():
    """Close the databases that MLflow keeps open as long as the process lives."""
    for module in ("mlflow.store.tracking.sqlalchemy_store", "mlflow.store.model_registry.sqlalchemy_store"):
        if module in sys.modules:
            engines = sys.modules[module].SqlAlchemyStore._engine_map
            for engine in engines.values():
                engine.dispose()
            engines.clear()


@pytest.fixture
def onnx_model():
    """``y = x @ WEIGHTS`` with any number of rows."""
    from onnx import TensorProto, helper, numpy_helper

    graph = helper.make_graph(
        [helper.make_node("MatMul", ["x", "w"], ["y"])],
        "matrix",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["batch", 4])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["batch", 3])],
        [numpy_helper.from_array(WEIGHTS, "w")],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=10)


@pytest.fixture
def make_winner(tmp_path, onnx_model):
    """Return a function that makes the artifact of the same model in ONNX Runtime."""
    import onnx

    def make(name="sealed", **metadata):
        folder = tmp_path / name
        folder.mkdir(exist_ok=True)
        onnx.save(onnx_model, folder / "model.onnx")
        artifact = Artifact(
            format="onnx",
            digest="",
            inputs=(TensorSpec(name="x", dtype="float32", shape=("batch", 4)),),
            outputs=(TensorSpec(name="y", dtype="float32", shape=("batch", 3)),),
            runtime="onnxruntime",
            metadata={"threads": 1, **metadata},
        )
        return artifact.model_copy(update={"digest": Manifest.measure(folder, artifact.manifest()).digest})

    return make


@pytest.fixture
def prove(tmp_path):
    """Return a function that puts the evidence of a run next to an artifact."""
    return partial(proof.prove, tmp_path)
