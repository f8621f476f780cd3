"""The worker of programs in a real worker process, from pinned data to scores."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest

from hone_runtime.contract.job import Job, StepResult
from hone_runtime.contract.toolchain import Limits
from hone_runtime.values.outcome import Failed
from kedro_hone import programs
from kedro_hone.core.workers.host.run import call_worker

INPUT = {"name": "x", "dtype": "float32", "shape": ["batch", 1, 8, 8]}
OUTPUT = {"name": "logits", "dtype": "float32", "shape": ["batch", 10]}


@pytest.fixture
def call(tmp_path):
    """Call a function of the worker in a process of its own."""
    (tmp_path / "model").mkdir()

    def call(function, program="image-classification", **options):
        job = Job(
            function=function,
            worker=str(programs.LIBRARY / "worker" / "__init__.py"),
            adaptor=f"program.{function}",
            input={"path": str(tmp_path / "model"), "format": "onnx", "inputs": [INPUT], "outputs": [OUTPUT]},
            output=str(tmp_path / "output"),
            options={
                "program": programs.find_program(program, project=tmp_path).path,
                "program_options": {},
                "project": str(tmp_path),
                **options,
            },
        )
        return call_worker(
            job,
            python=Path(sys.executable),
            toolchain=None,
            folder=tmp_path / f"step-{function}",
            limits=Limits(seconds=1800, memory_mb=4096),
        )

    return call


@pytest.fixture
def digits(tmp_path):
    """Three splits of scikit-learn's digits, with one row of the search split planted in the gate split."""
    from sklearn.datasets import load_digits

    images, labels = load_digits(return_X_y=True)
    images = images.reshape(-1, 8, 8)
    parts = {"calibration": slice(0, 100), "search": slice(100, 300), "gate": slice(299, 500)}
    for name, rows in parts.items():
        np.savez(tmp_path / f"{name}.npz", images=images[rows], labels=labels[rows])
    return {name: {"path": str(tmp_path / f"{name}.npz")} for name in parts}


def test_from_files_to_scores(call, digits, tmp_path):
    read = call("read", splits=digits)
    assert isinstance(read, StepResult)
    assert {name: split["n"] for name, split in read.notes["splits"].items()} == {
        "calibration": 100,
        "search": 200,
        "gate": 201,
    }
    assert read.notes["overlaps"] == [{"splits": ["search", "gate"], "count": 1, "example_rows": [199, 0]}]

    with np.load(tmp_path / "output" / "search" / "targets.npz") as targets:
        logits = np.eye(10, dtype=np.float32)[targets["target"]]
    np.savez(tmp_path / "source.npz", logits=logits)
    np.savez(tmp_path / "worse.npz", logits=np.roll(logits, 1, axis=1) * (np.arange(200)[:, None] < 7) + logits * 0.5)
    files = {
        "source": str(tmp_path / "source.npz"),
        "candidates": {"a.b": str(tmp_path / "worse.npz")},
        "targets": str(tmp_path / "output" / "search" / "targets.npz"),
    }
    default = call("evaluate", metric=None, seed=0, **files)
    assert isinstance(default, StepResult)
    row = default.notes["candidates"]["a.b"]
    assert (row["kind"], row["lost"], row["gained"], row["n"], row["source"]) == ("proportion", 7, 0, 200, 1.0)

    macro = call("evaluate", metric="f1_macro", seed=0, **files)
    assert isinstance(macro, StepResult)
    with np.load(macro.notes["candidates"]["a.b"]["replicates"]) as replicates:
        assert replicates["replicates"].shape == (2000,)


def test_bad_data_come_back_as_notes(call, digits):
    Path(digits["gate"]["path"]).write_bytes(b"damaged")
    read = call("read", splits=digits)
    assert isinstance(read, StepResult)
    assert read.notes["error"]["slug"] == "data-unreadable"


def test_a_program_that_fails_leaves_its_traceback_in_the_log(call, digits, tmp_path):
    (tmp_path / "mine.py").write_text("def prepare(data, job):\n    raise RuntimeError('of my own')\n")
    read = call("read", program="mine.py", splits=digits)
    assert isinstance(read, Failed)
    assert "of my own" in read.reason
    assert "mine.py" in Path(read.log).read_text()
