"""A winner that has to beat what is published, too: measured next to it, and published only where it does."""

from __future__ import annotations

import pytest
from small_project import copy_project

HONED = ("models", "matrix-hone")


@pytest.fixture
def project(finished, tmp_path):
    """A project whose first winner is published."""
    project = copy_project(finished, tmp_path)
    project.set(gates={"beat_published": True})
    return project


def list_versions(project):
    return sorted(path.name for path in project.root.joinpath(*HONED).iterdir() if path.name.isdecimal())


def test_the_same_winner_is_published_once(project):
    assert "KEEP" in project.run().output
    assert "honed points to the winner already" in project.evidence["reasons"]
    assert list_versions(project) == ["1"]


@pytest.mark.nightly
def test_one_that_is_no_faster_is_not_published(project):
    project.set(adaptors={"shop.fast": {"options": {"slow": 0.0201}}})
    project.run(code={0, 11})
    assert project.evidence["verdict"] in {"KEEP", "INCONCLUSIVE"}
    assert project.evidence["winner"] is None
    assert any(reason.startswith("against honed: ") for reason in project.evidence["reasons"])
    assert list_versions(project) == ["1"]


@pytest.mark.nightly
def test_one_that_is_faster_is_published(project):
    project.set(adaptors={"shop.fast": {"options": {"slow": 0.0}}})
    assert "PASS" in project.run().output
    assert any(reason.startswith("against honed: ") for reason in project.evidence["reasons"])
    assert list_versions(project) == ["1", "2"]
    assert project.root.joinpath(*HONED, "honed").resolve().name == "2"


@pytest.mark.nightly
def test_where_nothing_is_published_there_is_nobody_to_beat(unpublished, tmp_path):
    project = copy_project(unpublished, tmp_path)
    project.set(gates={"beat_published": True})
    assert "PASS" in project.run().output
    assert list_versions(project) == ["1"]
