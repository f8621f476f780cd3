"""Import by path: the same in a worker, in the learner and in tests."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from hone_runtime.worker import imports

INSIDE = Path(imports.__file__).parent


@pytest.fixture(autouse=True)
def modules(tmp_path):
    """Forget the modules that a test wrote; a library that it imported stays, since half of one cannot be forgotten."""
    before = dict(sys.modules)
    yield
    for name in sys.modules.keys() - before.keys():
        if name.startswith("hone_") or str(tmp_path) in str(getattr(sys.modules[name], "__file__", None)):
            del sys.modules[name]
    sys.modules.update(before)


def write(folder, **files):
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in files.items():
        (folder / f"{name}.py").write_text(text)
    return folder


def test_files_next_to_it_are_its_parts(tmp_path):
    write(tmp_path, worker="from .session import NAME\n", session="NAME = 'first'\n")
    assert imports.load_file("hone_test", str(tmp_path / "worker.py")).NAME == "first"
    with pytest.raises(ImportError, match="relative import"):
        imports.load_file("hone_test", str(tmp_path / "worker.py"), parts=False)


def test_another_file_of_the_same_name_gets_its_own_parts(tmp_path):
    for name in ("first", "second"):
        write(tmp_path / name, worker="from .session import NAME\n", session=f"NAME = {name!r}\n")
    for name in ("first", "second"):
        assert name == imports.load_file("hone_test", str(tmp_path / name / "worker.py")).NAME


def test_a_dataclass_finds_its_module(tmp_path):
    text = "from __future__ import annotations\nfrom dataclasses import dataclass\n\n@dataclass\nclass A:\n    a: int\n"
    assert imports.load_file("hone_test", str(write(tmp_path, a=text) / "a.py"), parts=False).A(1).a == 1


@pytest.mark.parametrize(
    ("name", "error"), [("none.py", FileNotFoundError), ("a.txt", ImportError), ("b.py", KeyError)]
)
def test_what_cannot_be_imported_leaves_no_module(tmp_path, name, error):
    (tmp_path / "a.txt").write_text("")
    write(tmp_path, b="raise KeyError('of its own')\n")
    with pytest.raises(error):
        imports.load_file("hone_test", str(tmp_path / name))
    assert "hone_test" not in sys.modules


@pytest.fixture
def library(tmp_path):
    """A folder of built-in programs, whose own code must not run in a worker."""
    library = write(tmp_path / "library", __init__="raise SystemExit('the code of the host ran')\n")
    write(library / "shared", __init__="", words="WORD = 'shared'\n")
    write(library / "task", __init__="from ..shared.words import WORD\nfrom .parts import PART\n", parts="PART = 1\n")
    return str(library)


def test_a_built_in_program_has_parts_and_shared_parts(library):
    task = imports.load_program(f"{library}/task/__init__.py", library)
    assert (task.WORD, task.PART) == ("shared", 1)
    assert imports.load_program(f"{library}/task/__init__.py", library) is task


@pytest.mark.parametrize("kind", ["file", "package"])
def test_a_users_program_imports_built_in_ones_and_their_shared_parts(library, tmp_path, kind):
    text = "from hone_programs.shared.words import WORD\nfrom hone_programs import task\nPART = task.PART\n"
    own = tmp_path / "own"
    path = write(own, task=text) / "task.py"
    if kind == "package":
        path = write(own / "task", __init__=text + "from .more import MORE\n", more="MORE = 2\n") / "__init__.py"
    program = imports.load_program(str(path), library)
    assert (program.WORD, program.PART, getattr(program, "MORE", 2)) == ("shared", 1, 2)


def test_a_real_worker_process_has_it_and_no_module_of_a_general_name(tmp_path, library):
    """The worker's main program as it is started: by path, in an interpreter that does not know kedro-hone."""
    worker = write(
        tmp_path / "toolchain",
        worker="import sys\nfrom hone_runtime.worker.imports import load_program\n\n\ndef look(job):\n"
        "    program = load_program(job['path'], job['library'])\n"
        "    return {'word': program.WORD, 'ours': [n for n in sys.modules if n in ('loading', 'kedro_hone')]}\n",
    )
    job = {
        "function": "look",
        "worker": str(worker / "worker.py"),
        "path": f"{library}/task/__init__.py",
        "library": library,
    }
    (tmp_path / "job.json").write_text(json.dumps(job))
    command = [sys.executable, "-I", str(INSIDE / "main.py"), str(tmp_path)]
    subprocess.run(command, check=True, timeout=600, capture_output=True)
    result = json.loads((tmp_path / "result.json").read_text())
    assert result.get("notes") == {"word": "shared", "ours": []}, result


def test_variables_are_set_for_a_while(monkeypatch):
    monkeypatch.setenv("HONE_OURS", "theirs")
    monkeypatch.delenv("HONE_NEW", raising=False)
    with imports.set_variables(HONE_OURS="1", HONE_NEW="2"):
        assert (os.environ["HONE_OURS"], os.environ["HONE_NEW"]) == ("1", "2")
    assert os.environ["HONE_OURS"] == "theirs"
    assert "HONE_NEW" not in os.environ


def test_only_the_cpu_is_taken_for_the_cpu():
    imports.require_cpu({"input": {"device": "cpu"}})
    with pytest.raises(ValueError, match=r"for the device cuda:1, and this toolchain computes on the CPU only"):
        imports.require_cpu({"input": {"device": "cuda:1"}})
