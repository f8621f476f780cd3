"""A run killed at any moment leaves nothing half, nobody alive, and a project whose next run ends well.

The moments are drawn anew in each session; ``HONE_SEED`` repeats those of an earlier one (its number is in the names of
the tests).
"""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from small_project import Project, copy_project

PHASES = ("start", "build", "measure", "publish")
"""From the start to the first step of an adaptor; to the first rounds of the race; to the report; to the end."""

SEED = int(os.environ["HONE_SEED"])
_DRAW = random.Random(SEED)
MOMENTS = [
    (phase, _DRAW.random())
    for phase, times in (("start", 1), ("build", 2), ("measure", 2), ("publish", 2))
    for _ in range(times)
]
OTHERS = {0, 1, 2, 3, 4, 6}
"""The numbers of those that are left to the nightly tests; a kill while it publishes is in each run."""

REGISTER = """
from pathlib import Path
from mlflow import MlflowClient
Path("data").mkdir(exist_ok=True)
client = MlflowClient("sqlite:///data/mlflow.db")
client.create_registered_model("matrix")
print(client.create_model_version("matrix", Path("models/matrix").absolute().as_uri()).version)
"""

LIST_VERSIONS = """
import json
from mlflow import MlflowClient
client = MlflowClient(tracking_uri="sqlite:///data/mlflow.db")
versions = client.search_model_versions("name='matrix'")
experiment = client.get_experiment_by_name("kedro-hone").experiment_id
print(json.dumps({
    "versions": {version.version: dict(version.tags) for version in versions},
    "alias": {name: str(number) for name, number in client.get_registered_model("matrix").aliases.items()},
    "sources": sorted(version.source for version in versions if "hone.source" in version.tags),
    "models": sorted(model.artifact_location for model in client.search_logged_models([experiment])),
}))
"""

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def project(template, tmp_path_factory) -> Project:
    """A project whose model is in MLflow, and that ran once; its tests follow each other."""
    project = copy_project(template, tmp_path_factory.mktemp("killed"))
    assert call(project, REGISTER) == "1"
    project.set(
        model={"uri": "models:/matrix/1"},
        # A short line of every kind of step.
        adaptors={
            "shop.slow": {"enabled": False},
            "shop.round": {"options": {"slow": 2}},
        },
    )
    return project


@pytest.fixture(scope="module")
def lengths(project) -> dict[str, float]:
    """How long each phase takes, in seconds."""
    began = time.monotonic()
    with project.start("run") as process:
        starts = {"start": began, **dict(watch(project, process, runs=0))}
        output, _ = process.communicate()
    assert process.returncode == 0, output
    ends = [*starts.values(), time.monotonic()][1:]
    return {phase: end - starts[phase] for phase, end in zip(PHASES, ends, strict=True)}


def call(project: Project, script: str) -> str:
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", script],
        cwd=project.root,
        env=project.variables,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip().splitlines()[-1]


def watch(project: Project, process: subprocess.Popen, *, runs: int) -> Iterator[tuple[str, float]]:
    """Yield each phase and the time when it begins, as long as the process lives."""
    signs = {
        "build": lambda run: any(run.glob("steps/*shop.*")),
        "measure": lambda run: (run / "events.jsonl").exists() and '"rounds"' in (run / "events.jsonl").read_text(),
        "publish": lambda run: (
            (project.work / "latest").exists() and (project.work / "latest").resolve() == run.resolve()
        ),
    }
    for phase, sign in signs.items():
        while not any(sign(run) for run in project.runs[runs:]):
            if process.poll() is not None:
                return
            time.sleep(0.01)
        yield phase, time.monotonic()


def kill(project: Project, phase: str, seconds: float) -> bool:
    """Kill a run's own process so long after a phase has begun; return whether it was still at work."""
    with project.start("run") as process:
        if phase != "start":
            next((begun for begun in watch(project, process, runs=len(project.runs)) if begun[0] == phase), None)
        time.sleep(seconds)
        if process.poll() is not None:
            return False
        process.send_signal(signal.SIGSTOP)  # so that the list of those below it is complete
        below = find_descendants(process.pid)
        process.kill()
        process.wait()
        deadline = time.monotonic() + 600
        while left := {pid for pid, start in below.items() if read_stat(pid)[1] == start}:
            assert time.monotonic() < deadline, [Path(f"/proc/{pid}/cmdline").read_bytes() for pid in left]
            time.sleep(0.02)
    return True


def find_descendants(pid: int) -> dict[int, str]:
    """Return the processes below one, and when each was started."""
    stats = {int(place.name): read_stat(int(place.name)) for place in Path("/proc").glob("[0-9]*")}
    found, rest = {}, [pid]
    while rest:
        parent = str(rest.pop())
        children = {child: start for child, (above, start) in stats.items() if above == parent}
        found |= children
        rest += children
    return found


def read_stat(pid: int) -> tuple[str, str]:
    """Return a process's parent and start; nothing when it is gone or waits for its parent to take note."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except (FileNotFoundError, ProcessLookupError):
        return "", ""
    return ("", "") if fields[0] in "ZX" else (fields[1], fields[19])


def check_registry(project: Project) -> None:
    """Assert that every version is finished, that the alias points to the last one, and that nothing else is left."""
    found = json.loads(call(project, LIST_VERSIONS))
    published = {number: tags for number, tags in found["versions"].items() if "hone.source" in tags}
    assert {tags["hone.state"] for tags in published.values()} == {"finished"}
    assert not any("hone.pending_alias" in tags for tags in published.values())
    assert found["alias"] == {"honed": max(published, key=int)}
    assert published[found["alias"]["honed"]]["hone.run"] == project.evidence["run_id"]
    assert found["models"] == found["sources"]


@pytest.mark.attack(
    what="SIGKILL at any moment of a run", who="nobody", stopped_by="what is not finished is made again"
)
@pytest.mark.parametrize(
    ("number", "phase", "part"),
    [
        pytest.param(number, *moment, marks=[pytest.mark.nightly] if number in OTHERS else [])
        for number, moment in enumerate(MOMENTS)
    ],
    ids=[f"seed-{SEED}-{number}-{phase}-{part:.0%}" for number, (phase, part) in enumerate(MOMENTS)],
)
def test_a_killed_run_leaves_nothing_half_and_the_next_ends_well(project, lengths, number, phase, part):
    length = lengths[phase]
    project.set(seed=number + 1)  # another key for every step: all is built anew
    while not kill(project, phase, part * length):
        part /= 2  # this run was faster than the first
        project.set(seed=project.parameters["seed"] + 100)
        assert part > 0.01

    project.wait_for_silence()
    project.check_store()
    for path in (project.work / "work").glob("[!.]*.json"):
        json.loads(path.read_text())
    assert project.evidence["verdict"] == "PASS"

    done = project.run()
    assert "PASS" in done.output
    assert json.loads((project.work / "latest" / "publication.json").read_text())["alias"] == "honed"
    check_registry(project)
    assert project.list_processes() == {}
