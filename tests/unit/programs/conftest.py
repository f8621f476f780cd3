"""What the tests of programs share: jobs as the host writes them, and files of data."""

from __future__ import annotations

import numpy as np
import pytest

from kedro_hone import programs
from kedro_hone.core.workers.inside.loading import load_file

IMAGE_INPUT = {"name": "x", "dtype": "float32", "shape": ["batch", 1, 4, 4]}
LOGITS = {"name": "logits", "dtype": "float32", "shape": ["batch", 3]}


@pytest.fixture(scope="session")
def worker():
    """The worker, loaded by path as in its own process."""
    return load_file("hone_worker_of_programs", str(programs.LIBRARY / "worker" / "__init__.py"))


@pytest.fixture
def make_job(tmp_path):
    """Make a job for a program."""

    def make(program, *, inputs=(IMAGE_INPUT,), outputs=(LOGITS,), program_options=None, **options):
        path = programs.find_program(program, project=tmp_path).path
        folder = tmp_path / "output"
        folder.mkdir(exist_ok=True)
        return {
            "input": {"inputs": list(inputs), "outputs": list(outputs)},
            "output": str(folder),
            "options": {
                "program": path,
                "program_options": program_options or {},
                "project": str(tmp_path),
                "seed": 0,
                **options,
            },
        }

    return make


@pytest.fixture
def save(tmp_path):
    """Save arrays as an npz file and return its path."""

    def save(name, **arrays):
        path = tmp_path / name
        np.savez(path, **arrays)
        return str(path)

    return save


@pytest.fixture
def random():
    return np.random.default_rng(7)


def load(path):
    with np.load(path) as archive:
        return {name: archive[name] for name in archive.files}
