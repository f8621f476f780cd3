"""An environment that disappears under a run costs it its candidates, and nothing else. The next run repairs it."""

from __future__ import annotations

import json
import shutil
import subprocess
import time
from collections.abc import Callable

import pytest
from small_project import FAST, Project, copy_project

KIOSK = """
import shutil
from dataclasses import replace
from pathlib import Path

# A second toolchain with the same worker, which needs what the interpreter that runs Kedro does not have.
kiosk = replace(adaptors.TOOLCHAIN, name="kiosk", folder=Path(__file__).parent / "kiosk", runs=frozenset({"toy"}))
fast = next(adaptor for adaptor in adaptors.ADAPTORS if adaptor.name == "shop.fast")
register(replace(fast, name="kiosk.fast", toolchain=kiosk))
"""

SIX = "8abb2f1d86890a2dfb989f9a77cfcfd3e47c2a354b01111771326f8aa26e0254"  # six-1.16.0-py2.py3-none-any.whl
CANDIDATE = "source.kiosk_fast"

pytestmark = pytest.mark.toolchain


@pytest.fixture(scope="module")
def project(template, tmp_path_factory) -> Project:
    """A project with a toolchain in an environment of its own, which its first run has built."""
    project = copy_project(template, tmp_path_factory.mktemp("environment"))
    package = project.root / "src" / "shop"
    (package / "settings.py").write_text((package / "settings.py").read_text() + KIOSK)
    shutil.copytree(package / "toolchain" / "worker", package / "kiosk" / "worker")
    (package / "kiosk" / "requirements.in").write_text("numpy>=1.26\nsix==1.16.0\n")
    lock = (package / "toolchain" / "requirements.lock").read_text()
    (package / "kiosk" / "requirements.lock").write_text(f"{lock}six==1.16.0 --hash=sha256:{SIX}\n")
    # Faster than the other, so that it is a finalist as long as it lives.
    project.set(
        toolchains=["shop", "kiosk"],
        adaptors={
            "shop.convert": {"enabled": False},
            "shop.slow": {"enabled": False},
            "shop.fast": {"options": {"slow": 0.1}},
            "kiosk.fast": {"options": {"slow": 0.01}},
        },
        confirm={"finalists": 2},
    )
    done = project.run("--pipelines", "assess")
    assert project.evidence["winner"]["candidate"] == CANDIDATE, done.output
    return project


def is_validated(run) -> bool:
    return any(event["event"] == "validation" and event["candidate"] == CANDIDATE for event in read_events(run))


def is_raced(run) -> bool:
    return any(event["event"] == "rounds" for event in read_events(run))


def read_events(run) -> list[dict]:
    path = run / "events.jsonl"
    return [json.loads(line) for line in path.read_text().splitlines() if line.endswith("}")] if path.exists() else []


def run_and_delete(project: Project, when: Callable) -> str:
    """Run, and take the environment away when something has happened."""
    (environment,) = (project.root.parent / "home" / "environments").iterdir()
    runs = len(project.runs)
    with project.start("run", "--pipelines", "assess") as process:
        while process.poll() is None and not any(when(run) for run in project.runs[runs:]):
            time.sleep(0.01)
        assert process.poll() is None
        environment.rename(environment.parent.with_name("gone"))
        output, _ = process.communicate()
    built_again = environment.exists()
    if not built_again:
        environment.parent.with_name("gone").rename(environment)
    assert process.returncode == 0, output
    assert not built_again
    return output


def test_its_own_environment_was_built_and_recorded(project):
    versions = {row["toolchain"]: row["versions"] for row in project.evidence["environments"]}
    assert versions["kiosk"]["six"] == "1.16.0"
    job = next(project.runs[-1].glob("steps/*-kiosk.fast/job.json"))
    assert json.loads(job.read_text())["adaptor"] == "kiosk.fast"
    (environment,) = (project.root.parent / "home" / "environments").iterdir()
    assert subprocess.run([environment / "venv" / "bin" / "python", "-c", "import six"], check=False).returncode == 0


@pytest.mark.parametrize("when", [is_validated, pytest.param(is_raced, marks=pytest.mark.nightly)])
def test_a_deleted_environment_fails_its_candidates_only(project, when):
    project.set(seed=project.parameters.get("seed", 0) + 1, gates={"drop": project.parameters["gates"]["drop"] + 0.01})
    output = run_and_delete(project, when)
    assert "PASS" in output
    evidence = project.evidence
    assert evidence["winner"]["candidate"] == FAST
    if when is is_validated:
        lost = project.candidate(CANDIDATE)
        assert (lost["status"], lost["failure_class"]) == ("failed", "install")
        reason = lost["reason"]
    else:
        finalists = evidence["confirmation"]["finalists"]
        reason = next(one["reason"] for one in finalists if one["id"] == CANDIDATE)
    assert "its own environment is not built" in reason


def test_the_next_run_repairs_it(project):
    (environment,) = (project.root.parent / "home" / "environments").iterdir()
    (environment / "venv" / "bin" / "python").unlink()
    project.run("--pipelines", "assess")
    assert project.evidence["winner"]["candidate"] == CANDIDATE
    assert (environment / "venv" / "bin" / "python").exists()


def test_an_interpreter_that_the_recipe_names_takes_the_place_of_a_locked_environment(project):
    (environment,) = (project.root.parent / "home" / "environments").iterdir()
    python = environment / "venv" / "bin" / "python"
    before = next(row for row in project.evidence["environments"] if row["toolchain"] == "kiosk")
    project.set(environments={"kiosk": {"python": str(python)}}, missing_toolchains="error")
    project.run("--pipelines", "assess")

    rows = {row["toolchain"]: row for row in project.evidence["environments"]}
    assert project.evidence["winner"]["candidate"] == CANDIDATE
    assert (rows["kiosk"]["origin"], rows["shop"]["origin"]) == ("named", "shared")
    assert rows["kiosk"]["versions"]["six"] == before["versions"]["six"]
    assert rows["kiosk"]["key"] != before["key"], "what was built elsewhere is not taken for this one's"
    assert "none: the recipe names the interpreter" in (project.runs[-1] / "report.html").read_text()


def test_one_that_does_not_exist_ends_a_run_that_wants_every_toolchain(project):
    project.set(environments={"kiosk": {"python": "/nowhere/python"}}, missing_toolchains="error")
    done = project.call("run", "--pipelines", "assess")

    assert done.code == 3, done.output
    assert "hone explain toolchain-missing" in done.output
    assert "kiosk: /nowhere/python, named for kiosk, cannot be started" in done.output
