"""The source's outputs on the training split: in parts where they are large, and refused where they are too large."""

from __future__ import annotations

import numpy as np
import pytest

from hone_runtime.errors import HoneError
from kedro_hone.search import training
from kedro_hone.search.training import list_runs

ROWS = np.arange(20, dtype=np.float32).reshape(10, 2)


@pytest.fixture
def run(tmp_path):
    """Return a function that computes the outputs in runs; it returns their numbers of rows, and the outputs."""
    np.savez(tmp_path / "rows.npz", x=ROWS)

    def call(compute, *, batch=2, row_bytes=8.0):
        output, sizes = tmp_path / "training.npz", []
        for rows, part, size in list_runs(tmp_path / "rows.npz", output, count=10, batch=batch, row_bytes=row_bytes):
            assert size == batch
            with np.load(rows) as arrays:
                sizes.append(len(arrays["x"]))
                np.savez(part, **compute(arrays["x"]))
        assert sorted(path.name for path in tmp_path.iterdir()) == ["rows.npz", "training.npz"]
        with np.load(output) as arrays:
            return sizes, dict(arrays)

    return call


def double(x):
    return {"y": 2 * x, "label": x[:, 0].astype(np.int64)}


@pytest.mark.parametrize(("most", "sizes"), [(1 << 30, [10]), (32, [4, 4, 2]), (40, [4, 4, 2]), (1, [2] * 5)])
def test_parts_are_whole_batches_and_joined_in_order(run, monkeypatch, most, sizes):
    monkeypatch.setattr(training, "PART_BYTES", most)
    found, outputs = run(double)
    assert found == sizes
    assert {name: array.dtype for name, array in outputs.items()} == {"y": np.float32, "label": np.int64}
    np.testing.assert_array_equal(outputs["y"], 2 * ROWS)
    np.testing.assert_array_equal(outputs["label"], ROWS[:, 0])


def test_what_would_not_fit_is_refused_before_it_is_run(run):
    with pytest.raises(HoneError, match="training-too-large") as raised:
        run(double, row_bytes=2.0 * (1 << 30))
    assert raised.value.what == "The source's outputs for the training split would take 20.0 GiB."
    assert "10 rows, with outputs of 2,048.0 MiB each" in raised.value.why
    assert "at most 8 rows" in raised.value.hint


@pytest.mark.parametrize(
    "compute",
    [
        lambda x: {"y": np.zeros((len(x), 1 + int(x[0, 0])))},
        lambda x: {"y": x.astype(np.float32 if x[0, 0] else np.float64)},
        lambda _: {"y": np.float32(0)},
        lambda x: {"y" if x[0, 0] else "z": x},
    ],
    ids=["another shape", "another type", "no rows", "another name"],
)
def test_parts_that_do_not_fit_together_are_refused(run, monkeypatch, compute):
    monkeypatch.setattr(training, "PART_BYTES", 32)
    with pytest.raises(HoneError, match="cannot be joined"):
        run(compute)
