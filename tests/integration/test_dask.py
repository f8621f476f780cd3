"""A search on a Dask cluster: real processes of a scheduler and workers, which die, on the loopback."""

from __future__ import annotations

import json
import os
import signal
import time
from contextlib import suppress

import pytest
from dask_cluster import DaskCluster
from small_project import HANG, copy_project

RUNNER = ("--runner", "kedro_hone.runner.DaskRunner", "--runner-params")
SAME = ("recipe", "verdict", "source", "data", "environments")


@pytest.fixture
def project(template, tmp_path):
    return copy_project(template, tmp_path)


@pytest.fixture
def cluster(project, tmp_path):
    """Two workers: one measures, and both build."""
    cluster = DaskCluster(tmp_path, project.variables)
    try:
        cluster.add("one", "build=1 bench=1")
        cluster.add("two", "build=1")
        cluster.wait()
        yield cluster
    finally:
        cluster.close()


def wait_for(condition):
    until = time.monotonic() + HANG
    while not condition():
        assert time.monotonic() < until
        time.sleep(0.02)


def count_steps(project):
    return len([*project.work.glob("runs/*/steps/*")])


def read_digests(project):
    return {name: outcome.get("digest", outcome.get("reason")) for name, outcome in project.read_outcomes().items()}


@pytest.mark.nightly
def test_it_finds_what_a_local_run_finds(project, cluster, finished):
    done = project.run(*RUNNER, f"scheduler={cluster.address}")

    assert read_digests(project) == read_digests(finished)
    for same in SAME:
        assert project.evidence[same] == finished.evidence[same], same
    assert sorted(project.read_diary()) == sorted(finished.read_diary())  # a hook's, of the run's own process
    assert "measured on one" in done.output
    assert "built     shop.slow" in done.output  # lines of nodes that ran elsewhere
    ran = [json.loads(line) for line in (project.runs[-1] / "events.jsonl").read_text().splitlines()]
    assert {"build", "validation", "rounds"} <= {event["event"] for event in ran}


@pytest.mark.nightly
def test_nodes_of_workers_that_die_run_again(project, cluster, finished):
    with project.start("run", *RUNNER, f"scheduler={cluster.address}", "--pipelines", "pull,build") as process:
        for _ in range(3):
            known = len([*project.work.glob("runs/*/steps/*")])
            wait_for(
                lambda known=known: len([*project.work.glob("runs/*/steps/*")]) > known or process.poll() is not None
            )
            for pid in cluster.find_pids().values():
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
        output, _ = process.communicate(timeout=HANG)

    assert process.returncode == 0, output
    assert read_digests(project) == read_digests(finished)
    project.check_store()


@pytest.mark.nightly
def test_the_death_of_the_scheduler_ends_the_run_and_what_was_built_is_kept(project, cluster, finished):
    with project.start("run", *RUNNER, f"scheduler={cluster.address}") as process:
        wait_for(lambda: len([*project.work.glob("store/steps/*.json")]) > 1)
        cluster.scheduler.kill()
        output, _ = process.communicate(timeout=HANG)
    assert process.returncode == 3, output
    assert "hone explain cluster-unreachable" in output

    done = project.run("--pipelines", "pull,build")  # by the usual runner

    assert "reused" in done.output
    assert read_digests(project) == read_digests(finished)
