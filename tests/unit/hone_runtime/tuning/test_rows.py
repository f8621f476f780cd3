"""Rows in calls of one size, and the limits of a job."""

from __future__ import annotations

import time
from types import SimpleNamespace

import numpy as np
import pytest

from hone_runtime.tuning.rows import read_rows, run_rows
from hone_runtime.tuning.search import DROP, read_settings

JUDGE = SimpleNamespace(metric="cosine", require=lambda: None, limits={"neighbours": 0.02})
ROWS = {"x": np.arange(10.0).reshape(10, 1), "y": np.arange(10)}


def test_every_call_has_the_same_size_and_no_row_is_twice_in_the_result():
    sizes = []

    def run(part):
        sizes.append(len(part["x"]))
        return {"sum": part["x"][:, 0] + part["y"], "count": np.array(len(part["x"]))}

    found = run_rows(run, ROWS, 4)
    assert sizes == [4, 4, 4]
    assert found["sum"].tolist() == [2 * row for row in range(10)]
    assert found["count"] == 4


def test_a_fixed_batch_larger_than_the_data_is_filled_up():
    found = run_rows(lambda part: {"x": part["x"], "size": np.zeros(len(part["x"]))}, ROWS, 16)
    assert np.array_equal(found["x"], ROWS["x"])


def test_only_the_first_rows_are_read(tmp_path):
    np.savez(tmp_path / "rows.npz", **ROWS, other=np.arange(3))
    assert {name: len(array) for name, array in read_rows(str(tmp_path / "rows.npz"), ROWS, 7).items()} == {
        "x": 7,
        "y": 7,
    }


def test_a_job_without_limits_has_the_gates_default():
    settings = read_settings({"options": {"evaluations": 5}}, JUDGE, began=time.monotonic())
    assert (settings.evaluations, settings.seconds) == (5, None)
    assert settings.limits == {"cosine": DROP, "neighbours": 0.02}


def test_the_time_since_the_step_began_is_used_up():
    job = {"options": {"evaluations": 5}, "drop": 0.05, "seconds": 100.0}
    settings = read_settings(job, JUDGE, began=time.monotonic() - 30)
    assert settings.limits == {"cosine": 0.05, "neighbours": 0.02}
    assert settings.seconds == pytest.approx(70, abs=1)
