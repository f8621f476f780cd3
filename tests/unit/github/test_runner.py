from __future__ import annotations

import json
import re
import sys

import pytest

from hone_runtime.errors import HoneError
from kedro_hone.github.runner import run

CHILD = """#!{python}
import json, os, pathlib, sys
pathlib.Path("module").write_text(sys.argv[2])
pathlib.Path("options.yml").write_text(pathlib.Path(sys.argv[-1]).read_text())
json.dump(dict(os.environ), open("environment.json", "w"))
print("::error file=conf/base/parameters.yml::forged")
raise SystemExit(11)
"""


@pytest.fixture
def program(tmp_path, monkeypatch):
    """What is run in place of Kedro: a program that forges an annotation, and keeps its options and variables."""
    path = tmp_path / "python"
    path.write_text(CHILD.format(python=sys.executable))
    path.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(path))


@pytest.fixture
def printed(job, program, capfd):
    """What the step prints, and the variables of its run."""
    credentials = dict.fromkeys(("GITHUB_STATE", "GITHUB_TOKEN", "ACTIONS_RUNTIME_TOKEN"), "of the runner")
    job.set(**credentials, INPUT_MODEL="models:/m/1")
    run()
    return capfd.readouterr().out, json.loads((job.workspace / "environment.json").read_text())


def test_a_folder_that_holds_only_its_configuration_is_a_project_too(job, printed):
    assert (job.workspace / "module").read_text() == "kedro_hone"  # which is Kedro everywhere else


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


def test_a_pull_request_is_assessed_where_a_push_is_published(job, program):
    job.set(INPUT_PUBLISH="on-pass")
    run()
    assert "assess" in (job.workspace / "options.yml").read_text()

    main = {"ref": "refs/heads/main", "repository": {"default_branch": "main"}}
    job.write_event(name="push", payload=main)
    run()
    assert "assess" not in (job.workspace / "options.yml").read_text()


def test_a_fork_starts_nothing_where_winners_are_published(job, program):
    job.set(INPUT_PUBLISH="on-pass")
    job.write_event(head="eve/r")

    with pytest.raises(HoneError, match="fork"):
        run()

    assert not (job.workspace / "options.yml").exists()
