"""zizmor finds nothing in the action and the workflows, and finds what is planted."""

from __future__ import annotations

import os
import re
import secrets
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from documented import list_workflows, read_steps
from github_server import BOT, serve_github

from kedro_hone.events.job import HandOver
from kedro_hone.events.jobs import hand_over
from kedro_hone.github.inputs import Inputs, write_options

ROOT = Path(__file__).parents[3]
FILES = [ROOT / "action.yml", *sorted((ROOT / ".github" / "workflows").glob("*.yml")), ROOT / ".github/dependabot.yml"]


def audit(*files):
    command = [str(Path(sys.executable).with_name("zizmor")), "--offline", "--no-progress", "--quiet", *map(str, files)]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)


def test_nothing_is_found():
    done = audit(*FILES)

    assert done.returncode == 0, done.stdout


@pytest.mark.parametrize("name", list_workflows())
def test_nothing_is_found_in_what_the_documentation_shows(name, tmp_path):
    (tmp_path / ".github" / "workflows").mkdir(parents=True)
    file = tmp_path / ".github" / "workflows" / "documented.yml"
    file.write_text(list_workflows()[name])

    done = audit(file)

    # Two need such a trigger, and run no code of the pull request.
    assert set(re.findall(r"^\w+\[([\w-]+)\]", done.stdout, re.MULTILINE)) <= {"dangerous-triggers"}, done.stdout


@pytest.mark.parametrize(
    ("old", "new", "found"),
    [
        (
            'run: |\n        "$HONE_VENV',
            'run: |\n        echo "${{ inputs.model }}"\n        "$HONE_VENV',
            "template-injection",
        ),
        ("setup-python@e797f83bcb11b83ae66e0230d6156d7c80228e7c # v6.0.0", "setup-python@v6", "unpinned-uses"),
    ],
)
def test_what_is_planted_is_found(old, new, found, tmp_path):
    text = (ROOT / "action.yml").read_text()
    assert old in text
    (tmp_path / "action.yml").write_text(text.replace(old, new))

    done = audit(tmp_path / "action.yml")

    assert done.returncode != 0
    assert found in done.stdout


def test_each_rule_of_the_owners_names_a_file():
    """GitHub says nothing of a rule whose path was renamed: its files would have no owner."""
    lines = (ROOT / ".github" / "CODEOWNERS").read_text().splitlines()
    rules = [line.split() for line in lines if line and not line.startswith("#")]
    assert rules[0][0] == "*"
    for pattern, *owners in rules:
        assert all(owner.startswith("@kedro-hone/") for owner in owners), pattern
        found = list(ROOT.glob(pattern.strip("/")))
        assert found, pattern
        assert not pattern.endswith("/") or found[0].is_dir(), pattern


def run_script(step, folder, **variables):
    command = ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", step["run"]]
    return subprocess.run(command, cwd=folder, env=os.environ | variables, check=True, timeout=60)


def test_a_workflow_that_takes_an_event_over_follows_the_rule(tmp_path, monkeypatch):
    recipe = {"budget": "thorough", "gates": {"drop": 0.5}, "model": {"module": 'it\'s $(HOME) "m"'}}
    with serve_github() as github:
        monkeypatch.setenv("GITHUB_API_URL", github.url)
        task = HandOver(repository="o/r", event_type="model-version", recipe=recipe, env="text")
        hand_over("models:/digits/3", task, token=secrets.token_hex(8), job="7")
    payload = github.dispatches[0]["client_payload"]
    text = list_workflows()["listen-to-a-registry/hone"]
    assert all(f"github.event.client_payload.{name} }}" in text for name in payload)
    steps = read_steps("listen-to-a-registry/hone")
    script, action = (next(step for step in steps if key(step)) for key in (lambda s: "run" in s, is_ours))

    run_script(script, tmp_path, RECIPE=payload["recipe"])

    assert script["env"] == {"RECIPE": "${{ github.event.client_payload.recipe }}"}
    assert action["env"]["KEDRO_ENV"] == "${{ github.event.client_payload.env }}"
    write_options(Inputs(model=payload["model"], recipe=action["with"]["recipe"]), tmp_path, tmp_path / "run.json")
    followed = yaml.safe_load((tmp_path / "run.json").read_text())["run"]["params"]["hone"]
    assert followed == recipe | {"model": {**recipe["model"], "uri": "models:/digits/3"}}


def is_ours(step):
    return "kedro-hone@" in step.get("uses", "")


@pytest.mark.skipif(shutil.which("jq") is None, reason="gh's stand-in needs jq")
def test_the_second_workflow_has_a_comment_for_each_report_and_touches_no_other(tmp_path):
    stranger = {"login": "eve", "type": "User", "id": 2}
    (script,) = read_steps("run-as-a-github-action/hone comment")
    for name in ("kedro-hone-0123456789ab", "kedro-hone-ba9876543210"):
        (tmp_path / "artifacts" / name).mkdir(parents=True)
        (tmp_path / "artifacts" / name / "report.md").write_text(f"PASS: {name} | ✅ @true\n")
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "gh").write_text(f'#!/bin/sh\nexec "{sys.executable}" "{ROOT}/tests/action/gh.py" "$@"\n')
    (tmp_path / "bin" / "gh").chmod(0o755)
    with serve_github() as github:
        variables = {"PATH": f"{tmp_path}/bin:{os.environ['PATH']}", "GITHUB_API_URL": github.url}
        variables |= {"GH_REPO": "o/r", "GH_TOKEN": "t0ken", "RUN": "42", "HEAD": "eve:x"}
        variables |= {"STAND_IN_ARTIFACTS": str(tmp_path / "artifacts")}
        github.add_comment("<!-- kedro-hone-0123456789ab -->\nforged", stranger)
        for number in range(40):
            github.add_comment(f"Another bot {number}", BOT)
        run_script(script, tmp_path, **variables)
        assert [one["body"].splitlines()[0] for one in github.comments[41:]] == [
            "<!-- kedro-hone-0123456789ab -->",
            "<!-- kedro-hone-ba9876543210 -->",
        ]
        shutil.rmtree(tmp_path / "reports")
        (tmp_path / "artifacts" / "kedro-hone-ba9876543210" / "report.md").write_text("FAIL: now\n")
        run_script(script, tmp_path, **variables)

    assert len(github.comments) == 43
    assert github.comments[0]["body"].endswith("forged")
    assert [one["body"] for one in github.comments[1:41]] == [f"Another bot {number}" for number in range(40)]
    assert github.comments[41]["body"] == "<!-- kedro-hone-0123456789ab -->\nPASS: kedro-hone-0123456789ab | ✅ @true\n"
    assert github.comments[42]["body"] == "<!-- kedro-hone-ba9876543210 -->\nFAIL: now\n"
