"""Data that are legal and probably wrong: the run goes on, and says so, also when nothing is computed again."""

from __future__ import annotations

import re

import numpy as np
import pytest
from small_project import copy_project, make_template


def change(path, function):
    with np.load(path) as archive:
        arrays = dict(archive)
    function(arrays)
    np.savez(path, **arrays)


def spoil_rows(arrays):
    arrays["x"][:3, 1] = np.nan


def shift_labels(arrays):
    arrays["labels"][1:] = (arrays["labels"][1:] + 1) % 3  # a source that is right in no row is refused


@pytest.mark.nightly
def test_doubtful_inputs_and_labels_are_warnings(tmp_path):
    project = copy_project(make_template(tmp_path / "template"), tmp_path)
    change(project.splits / "calibration.npz", spoil_rows)
    change(project.splits / "search.npz", shift_labels)
    project.track()
    project.set(program={"name": "tabular-classification"})
    for _ in range(2):
        done = project.call("run", "--to-nodes", "pull.baseline")
        output = re.sub(r"\s+", " ", done.output)
        assert done.code == 0, done.output
        assert "calibration (calibration.npz): 3 of 40 rows hold numbers that are not finite, in 'x'" in output
        assert re.search(r"search \(search.npz\): the predictions are right in [0-2]\.\d% of the rows", output)
        assert "check that the labels are the model's" in output
    change(project.splits / "search.npz", lambda arrays: [shift_labels(arrays), shift_labels(arrays)])
    project.track()
    assert "check that the labels" not in project.call("run", "--to-nodes", "pull.baseline").output
