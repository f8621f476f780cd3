"""Another version, a person or an attacker changes the store, or what a run reads, before it or meanwhile."""

from __future__ import annotations

import json

import pytest
from small_project import copy_project

from kedro_hone.core.store.artifacts import _wrap


@pytest.mark.parametrize("what", ["nothing", "more"])
def test_values_that_another_version_wrote_are_made_again(unpublished, tmp_path, what):
    """An older or a newer version keeps less or more under a key: well-formed, with the right digest."""
    project = copy_project(unpublished, tmp_path)
    before = project.evidence
    values = sorted((project.store.root / "values").iterdir())
    assert len(values) > 3
    for path in values:
        value = json.loads(path.read_text())["value"]
        other = {} if what == "nothing" else {**value, "splits": 3, "from_a_newer_version": True}
        path.write_text(json.dumps(_wrap(f"values/{path.name}", other)))
    project.run("--pipelines", "assess")
    assert project.evidence["counts"]["builds"] == 0
    assert project.evidence["counts"]["validations"] == before["counts"]["validations"]
    for path in values:
        assert "from_a_newer_version" not in path.read_text()
        assert project.store.read_value(path.stem) != {}
