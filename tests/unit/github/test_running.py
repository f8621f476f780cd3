from __future__ import annotations

import json
import re
import sys

import pytest

from kedro_hone.github.running import run

CHILD = """#!{python}
import json, os
json.dump(dict(os.environ), open("environment.json", "w"))
print("::error file=conf/base/parameters.yml::forged")
raise SystemExit(11)
"""


@pytest.fixture
def printed(job, tmp_path, monkeypatch, capfd):
    """What the step prints, and the variables of its run, which is a program that forges an annotation."""
    program = tmp_path / "python"
    program.write_text(CHILD.format(python=sys.executable))
    program.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(program))
    credentials = dict.fromkeys(("GITHUB_STATE", "GITHUB_TOKEN", "ACTIONS_RUNTIME_TOKEN"), "of the runner")
    job.set(**credentials, INPUT_MODEL="models:/m/1")
    run()
    return capfd.readouterr().out, json.loads((job.workspace / "environment.json").read_text())


@pytest.mark.attack(
    what="workflow commands in what the run of a pull request prints",
    who="pull request",
    stopped_by="GitHub reads no commands while the run prints",
)
def test_what_a_run_prints_is_no_command_of_the_workflow(printed):
    said, _ = printed
    (secret,) = re.findall(r"^::stop-commands::([0-9a-f]{32})$", said, re.MULTILINE)
    start, forged, end = said.index("::stop-commands::"), said.index("::error"), said.index(f"\n::{secret}::\n")
    assert start < forged < end


@pytest.mark.attack(
    what="reading the token or the runner's credentials from the variables of the run",
    who="pull request",
    stopped_by="the run gets none of them",
)
def test_a_run_has_no_credentials_of_the_runner(printed, job):
    _, environment = printed
    assert not [name for name in environment if name.startswith(("ACTIONS_", "GITHUB_STATE", "GITHUB_TOKEN", "INPUT_"))]
    assert job.outputs["code"] == "11"


@pytest.mark.parametrize("name", ["main", "fix,one/two"])
def test_a_pull_request_finds_what_a_push_to_its_base_kept(job, monkeypatch, name):
    monkeypatch.setattr(sys, "executable", "/bin/true")
    job.set(INPUT_MODEL="models:/m/1", GITHUB_BASE_REF=name, GITHUB_REF_NAME="7/merge")
    run()
    found = job.outputs["branch"]
    (job.workspace / "output").write_text("")
    job.set(GITHUB_BASE_REF="", GITHUB_REF_NAME=name)
    run()
    assert found == job.outputs["branch"]
    assert re.fullmatch("[0-9a-f]{16}", found)
