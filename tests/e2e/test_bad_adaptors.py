"""Adaptors that misbehave in every way: each is a line in the report, and the run comes to its verdict all the same."""

from __future__ import annotations

import pytest
from kernel import find_layers
from small_project import FAST, copy_project
from toolchains.bad import IN_A_RUN

from hone_runtime.values.manifest import read_sealed

REGISTRATION = """
from dataclasses import replace

from hone_runtime.values.artifact import Stage
from toolchains.bad import IN_A_RUN

for bad in IN_A_RUN:
    # One toolchain for each, since their workers differ; they compile, so that each ends a route.
    name = f"bad_{bad.adaptor.toolchain.worker.stem}"
    toolchain = replace(bad.adaptor.toolchain, name=name, runs=frozenset({"toy"}), default=True)
    register(replace(bad.adaptor, name=f"{name}.it", toolchain=toolchain, stage=Stage.COMPILE, default=True))
"""

NAMES = [bad.adaptor.toolchain.worker.stem for bad in IN_A_RUN]
CLASSES = {name: bad.failure or "load" for name, bad in zip(NAMES, IN_A_RUN, strict=True)}
"""Where transforming goes well, the model cannot be loaded: these workers have no function for it."""


@pytest.fixture(scope="module")
def project(template, tmp_path_factory):
    """A project with all of them, after one run."""
    project = copy_project(template, tmp_path_factory.mktemp("bad"))
    settings = project.root / "src" / "shop" / "settings.py"
    settings.write_text(settings.read_text() + REGISTRATION)
    project.set(toolchains=["shop", *(f"bad_{name}" for name in NAMES)], adaptors={"shop.convert": {"enabled": False}})
    project.first = project.run()
    return project


@pytest.mark.parametrize("name", NAMES)
def test_it_is_recorded_with_the_class_of_its_failure(project, name):
    record = project.candidate(f"source.bad_{name}_it")
    assert (record["status"], record["failure_class"]) == ("failed", str(CLASSES[name]))
    assert record["reason"].startswith((f"bad_{name}.it: ", f"source.bad_{name}_it: ", "output 'y'"))
    assert f"bad_{name}.it" in (project.work / "latest" / "report.html").read_text()


def test_the_run_comes_to_its_verdict_and_a_good_one_wins(project):
    assert "PASS" in project.first.output
    assert project.evidence["winner"]["candidate"] == FAST
    assert len(list(project.root.glob("**/*-hone/1/hone.json"))) == 1


def test_nobody_harmed_the_source_or_the_store(project):
    assert read_sealed(project.store.root / "objects" / project.evidence["source"]["digest"].removeprefix("sha256:"))
    project.check_store()


@pytest.mark.attack(
    what="a toolchain that writes next to the project in a whole run",
    who="worker",
    stopped_by="Landlock",
    feature="Landlock (Linux 5.19)",
)
def test_nothing_was_written_outside(project):
    if find_layers()["landlock"] < 2:
        pytest.skip("this kernel has no Landlock")
    assert list(project.root.rglob("outside.txt")) == []


@pytest.mark.attack(what="a worker that prints without end", who="worker", stopped_by="the log is bounded")
def test_a_log_keeps_no_more_than_it_may(project):
    (log,) = project.runs[-1].glob("steps/*bad_prints.it/log")
    assert log.stat().st_size < 70 * 1024


def test_nobody_lives_on(project):
    project.wait_for_silence()
    assert project.list_processes() == {}
