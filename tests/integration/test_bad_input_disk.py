"""Disks that are full or read-only, real ones: a small tmpfs and a read-only mount, seen by the run alone."""

from __future__ import annotations

import json
import os
import shutil

import pytest
from small_project import Project, copy_project

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="needs root")

SCRIPT = """
{mount}
"$@"
code=$?
{after}
exit $code
"""


def run(project: Project, *, mount: str, after: str = ""):
    """Run the line in a mount namespace of its own, so that its mounts end with it."""
    script = SCRIPT.format(mount=mount, after=after)
    prefix = ("unshare", "--mount", "--propagation", "private", "sh", "-c", script, "sh")
    return project.call("run", prefix=prefix)


@pytest.mark.attack(
    what="a disk that becomes full in a run", who="nobody", stopped_by="files appear whole or not at all"
)
@pytest.mark.parametrize("size", [250, *(pytest.param(size, marks=pytest.mark.nightly) for size in (60, 560))])
def test_a_full_disk_is_explained_and_what_was_finished_is_kept(project, size):
    place, saved = project.work, project.root.parent / "saved"
    place.mkdir()
    done = run(
        project,
        mount=f"mount -t tmpfs -o size={size}k tmpfs '{place}'",
        after=f"cp -a '{place}' '{saved}'",
    )
    assert done.code == 3, done.output
    assert "hone explain store-full" in done.output
    assert "No space left on device" in done.output

    place.rmdir()
    shutil.copytree(saved, place, symlinks=True)
    project.check_store()
    for path in (place / "work").glob("[!.]*.json"):
        json.loads(path.read_text())
    assert not (place / "latest").exists()


@pytest.mark.nightly
def test_with_more_space_the_next_run_ends_well(project):
    place = project.work
    place.mkdir()
    done = run(
        project,
        mount=f"mount -t tmpfs -o size=400k tmpfs '{place}'",
        after=f"mount -o remount,size=20m '{place}'\n\"$@\" || exit 1\ncp -a '{place}' '{place.parent}/saved'",
    )
    assert done.code == 3, done.output
    assert "hone explain store-full" in done.output
    place.rmdir()
    (place.parent / "saved").rename(place)
    assert project.evidence["verdict"] == "PASS"
    assert project.evidence["counts"]["builds"] < 6  # what was finished was kept
    project.check_store()


def test_a_read_only_disk_is_explained(finished, tmp_path):
    project = copy_project(finished, tmp_path)
    before = sorted(project.work.rglob("*"))
    done = run(
        project, mount=f"mount --bind '{project.work}' '{project.work}' && mount -o remount,bind,ro '{project.work}'"
    )
    assert done.code == 3, done.output
    assert "hone explain store-read-only" in done.output
    assert sorted(project.work.rglob("*")) == before
    project.check_store()
