"""A task is one folder, in a user's project and among the built-in programs, and nothing else is touched."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

import numpy as np
import pytest

from hone_runtime.errors import HoneError
from hone_runtime.worker.imports import load_file
from kedro_hone import programs

FILES = {
    "__init__.py": '''"""Sentences as their lengths; the model returns a mark."""

from __future__ import annotations

from {shared}.arrays import find_array, find_output
from {shared}.errors import UnreadableError

from .words import count_words

METRIC = "hit_rate"
HIGHER_IS_BETTER = True


def prepare(data, job):
    text = find_array(data, "text", arrays={{}}, aliases=())
    if text is None:
        raise UnreadableError("there are no sentences")
    feeds = {{job["input"]["inputs"][0]["name"]: count_words(text)}}
    return feeds, {{"target": data["mark"]}} if "mark" in data else {{}}


def decode(outputs, options):
    return find_output(outputs, None).reshape(-1).round()


def score(predictions, targets, options):
    return (predictions == targets["target"]).astype(float)


def metric(predictions, targets, options):
    return float(score(predictions, targets, options).mean())
''',
    "words.py": '''"""Words."""

from __future__ import annotations

import numpy as np


def count_words(text):
    """Return the number of words of each sentence, as (rows, 1)."""
    return np.array([[len(line.split())] for line in text])
''',
}
LENGTH = {"name": "length", "dtype": "float32", "shape": ["batch", 1]}


@pytest.fixture
def import_path(monkeypatch):
    """Forget what the worker adds for the user's imports."""
    monkeypatch.setattr(sys, "path", sys.path.copy())


def list_files(root: Path) -> set[str]:
    return {path.relative_to(root).as_posix() for path in root.rglob("*.py")}


def add_task(folder: Path, *, shared: str) -> None:
    folder.mkdir(parents=True)
    for name, text in FILES.items():
        (folder / name).write_text(text.format(shared=shared) if name == "__init__.py" else text)


def run_task(worker, make_job, save, name):
    """Prepare data and score a candidate with the program."""
    search = save("a.npz", text=["one", "one two", "one two three"], mark=[1, 2, 3])
    job = make_job(name, inputs=[LENGTH], splits={"search": {"path": search}})
    assert worker.read(job).get("error") is None
    with np.load(f"{job['output']}/search/feeds.npz") as feeds:
        np.testing.assert_array_equal(feeds["length"], [[1], [2], [3]])
    files = {
        "source": save("s.npz", mark=[[1.1], [2.1], [2.9]]),
        "candidates": {"worse": save("w.npz", mark=[[1.0], [1.0], [1.0]])},
        "targets": f"{job['output']}/search/targets.npz",
    }
    row = worker.evaluate(make_job(name, **files))["candidates"]["worse"]
    assert (row["metric"], row["source"], row["lost"]) == ("hit_rate", 1.0, 2)


@pytest.mark.parametrize("name", ["tasks/sentence_marks", "tasks.sentence_marks"])
@pytest.mark.usefixtures("import_path")
def test_a_task_of_a_project_is_one_folder(worker, make_job, save, tmp_path, name):
    before = list_files(tmp_path)
    add_task(tmp_path / "tasks" / "sentence_marks", shared="hone_programs.shared")
    touched = list_files(tmp_path) - before
    run_task(worker, make_job, save, name)
    assert touched == {"tasks/sentence_marks/__init__.py", "tasks/sentence_marks/words.py"}


def test_a_built_in_task_is_one_folder(make_job, save, tmp_path, monkeypatch):
    """A copy of the built-in programs and one more folder: it is listed, found and run."""
    library = tmp_path / "library"
    shutil.copytree(programs.LIBRARY, library, ignore=shutil.ignore_patterns("__pycache__"))
    monkeypatch.setattr(programs, "LIBRARY", library)
    before = {name: (library / name).read_bytes() for name in list_files(library)}
    add_task(library / "sentence_marks", shared="..shared")

    assert "sentence-marks" in programs.list_programs()
    worker = load_file("hone_worker_of_a_copy", str(library / "worker" / "__init__.py"))
    run_task(worker, make_job, save, "sentence-marks")

    assert list_files(library) - before.keys() == {"sentence_marks/__init__.py", "sentence_marks/words.py"}
    assert all((library / name).read_bytes() == text for name, text in before.items())


def test_what_is_kept_of_a_program_is_what_is_run(tmp_path):
    """A user's code is copied, and stays as it was; a built-in program is named, and compared."""
    kept = tmp_path / "kept"
    kept.mkdir()
    add_task(tmp_path / "programs" / "length", shared="hone_programs.shared")
    own, built_in = (programs.find_program(name, project=tmp_path) for name in ("programs/length", "fidelity"))
    name = programs.copy_program(own, kept)
    assert name == "program/length/__init__.py"
    assert programs.copy_program(built_in, kept) == "fidelity/__init__.py"
    words = Path(own.path).with_name("words.py")
    words.write_text(words.read_text() + "\n# changed\n")
    path = programs.locate_program(name, kept, digest=own.digest)
    assert "changed" not in path.with_name("words.py").read_text()
    assert programs.locate_program("fidelity/__init__.py", kept, digest=built_in.digest) == Path(built_in.path)
    for each in (name, "fidelity/__init__.py", "gone/__init__.py"):
        with pytest.raises(HoneError) as caught:
            programs.locate_program(each, kept, digest="sha256:0")
        assert caught.value.slug == "program-changed"


def test_a_program_in_one_file_is_kept_too(tmp_path):
    (tmp_path / "mine.py").write_text("METRIC = 'x'\n")
    (tmp_path / "kept").mkdir()
    program = programs.find_program("mine.py", project=tmp_path)
    name = programs.copy_program(program, tmp_path / "kept")
    (tmp_path / "mine.py").unlink()
    assert programs.locate_program(name, tmp_path / "kept", digest=program.digest).read_text() == "METRIC = 'x'\n"
