"""Two processes that publish the same thing at the same time make one version."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import kedro_hone

PACKAGE = "kedro_hone.adaptors.registries"


@pytest.mark.parametrize(
    ("name", "registry"),
    [("local", "LocalRegistry"), pytest.param("mlflow", "MlflowRegistry", marks=pytest.mark.nightly)],
)
def test_two_processes_make_one_version(tmp_path, make_winner, prove, name, registry):
    winner = make_winner()
    prove(winner)  # both publish this evidence
    environment = os.environ | {"PYTHONPATH": f"{Path(kedro_hone.__file__).parents[1]}:{Path(__file__).parents[2]}"}
    script = Path(__file__).with_name("publish_and_meet.py")
    command = [sys.executable, "-W", "ignore", script, f"{PACKAGE}.{name}.registry", registry, tmp_path]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True, "env": environment}
    processes = [subprocess.Popen(command, **pipes) for _ in range(2)]
    for process in processes:
        process.stdin.write(winner.model_dump_json())
        process.stdin.close()
        process.stdin = None
    published = [json.loads(process.communicate()[0]) for process in processes]
    assert published[0] == published[1]
    assert published[0]["version"] == "1"
    if name == "local":
        assert sorted(path.name for path in (tmp_path / "digits-hone").iterdir()) == ["1", "honed"]
    else:
        import mlflow

        assert [str(one.version) for one in mlflow.MlflowClient().search_model_versions("name='digits'")] == ["1"]
