from __future__ import annotations

from pathlib import Path

import pytest

from kedro_hone.cli.tracking import pin_store

HERE = Path("/somewhere")


@pytest.mark.parametrize(
    ("given", "pinned"),
    [
        ("sqlite:///mlflow.db", "sqlite:////somewhere/mlflow.db"),
        ("sqlite+pysqlite:///a/b.db", "sqlite+pysqlite:////somewhere/a/b.db"),
        ("file:mlruns", "file:///somewhere/mlruns"),
        ("file:./mlruns", "file:///somewhere/mlruns"),
        ("file:my%20store", "file:///somewhere/my%20store"),
        ("mlruns", "/somewhere/mlruns"),
        ("sqlite:///file:mlflow.db?uri=true", "sqlite:///file:mlflow.db?uri=true"),
        ("sqlite:////data/mlflow.db", "sqlite:////data/mlflow.db"),
        ("sqlite:///:memory:", "sqlite:///:memory:"),
        ("file:///data/mlruns", "file:///data/mlruns"),
        ("https://mlflow.example.com", "https://mlflow.example.com"),
        ("databricks", "databricks"),
    ],
)
@pytest.mark.parametrize("name", ["MLFLOW_TRACKING_URI", "MLFLOW_REGISTRY_URI"])
def test_a_path_in_a_uri_becomes_absolute(given, pinned, name):
    variables = {name: given, "OTHER": "sqlite:///x"}
    pin_store(variables, HERE)
    assert variables == {name: pinned, "OTHER": "sqlite:///x"}


def test_a_name_of_a_store_is_no_folder(tmp_path):
    (tmp_path / "databricks").mkdir()
    variables = {"MLFLOW_TRACKING_URI": "databricks"}
    pin_store(variables, tmp_path)
    assert variables == {"MLFLOW_TRACKING_URI": "databricks"}


@pytest.mark.parametrize(
    ("files", "found"), [(["mlflow.db", "mlruns"], "mlflow.db"), (["data/mlflow.db"], "data/mlflow.db"), ([], None)]
)
def test_without_a_uri_it_is_the_store_of_the_folder(tmp_path, files, found):
    for name in files:
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).touch()
    variables = {"MLFLOW_TRACKING_URI": ""} if found else {}
    pin_store(variables, tmp_path)
    assert variables == ({"MLFLOW_TRACKING_URI": f"sqlite:///{tmp_path / found}"} if found else {})
