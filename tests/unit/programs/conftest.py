"""What the tests of programs share: jobs as the host writes them, and files of data."""

from __future__ import annotations

import json

import numpy as np
import pytest
from text_models import WORDS, save_tokenizer

from hone_runtime.worker.imports import load_file
from kedro_hone import programs

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


@pytest.fixture
def make_model_folder(tmp_path, monkeypatch):
    """Make the folder of a source model: a tokenizer of these words as BERT has it, and files of JSON by name."""
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")

    def make(*, words=WORDS, tokenizer=True, **files):
        folder = tmp_path / "model"
        folder.mkdir(exist_ok=True)
        for name, content in files.items():
            path = folder / f"{name.replace('__', '/')}.json"
            path.parent.mkdir(exist_ok=True)
            path.write_text(json.dumps(content))
        if tokenizer:
            save_tokenizer(folder, words)
        return folder

    return make


@pytest.fixture
def run_program(worker, make_job, save, tmp_path):
    """Read one split by a program, and score outputs against others: what the worker does in a run."""

    def run(program, data, *, inputs, outputs, folder, **options):
        path = data if isinstance(data, str) else save("split.npz", **data)
        job = make_job(
            program, inputs=inputs, outputs=outputs, program_options=options, splits={"gate": {"path": path}}
        )
        job["input"]["path"] = str(folder)
        notes = worker.read(job)
        if "error" in notes:
            print(notes["error"]["why"])  # noqa: T201 - for a test that did not expect it
            return notes
        kept = f"{job['output']}/gate"
        notes |= {"feeds": load(f"{kept}/feeds.npz"), "targets": load(f"{kept}/targets.npz")}

        def score(source, candidate=None, **more):
            files = {"source": save("source.npz", **source), "targets": f"{kept}/targets.npz"}
            files["candidates"] = {"one": save("one.npz", **(source if candidate is None else candidate))}
            found = worker.evaluate(make_job(program, program_options=options, **{"metric": None, **files, **more}))
            return found["candidates"]["one"] if "candidates" in found else found

        return {**notes, "score": score}

    return run
