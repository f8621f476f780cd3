"""What rebuilds a toolchain's steps: an edit of its worker or of what runs in all workers, and nothing else."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from hone_runtime.contract.adaptor import Adaptor
from hone_runtime.contract.catalogue import find_used, list_builtin, read_catalogue
from hone_runtime.contract.hardware import read_host
from hone_runtime.values.artifact import Artifact
from kedro_hone.core.store.steps import step_key
from kedro_hone.core.workers.host import run
from kedro_hone.search.steps import runtimes

SOURCE = Artifact(format="onnx", digest="sha256:0", inputs=(), outputs=())


@pytest.fixture(params=sorted(list_builtin().keys() - {"composite"}))
def adaptor(request, tmp_path) -> Adaptor:
    """An adaptor whose toolchain's folder is a copy; a composite has none."""
    adaptor = next(one for one in read_catalogue().adaptors.values() if one.toolchain.name == request.param)
    shutil.copytree(adaptor.toolchain.folder, tmp_path / "copy")
    return replace(adaptor, toolchain=replace(adaptor.toolchain, folder=tmp_path / "copy"))


def make_key(adaptor: Adaptor) -> str:
    worker = run.digest_worker(adaptor.toolchain.worker)
    return step_key(adaptor, SOURCE, adaptor.options(), worker=worker, environment="e", host=read_host(), seed=0)[0]


def touch(path: Path) -> None:
    path.write_bytes(path.read_bytes() + b"\n# edited\n")


def test_the_description_rebuilds_nothing(adaptor):
    before = make_key(adaptor)
    files = [path for path in adaptor.toolchain.folder.iterdir() if path.is_file()]
    assert {"adaptor.py", "requirements.in"} <= {path.name for path in files}
    for path in files:
        touch(path)
    assert make_key(replace(adaptor, summary="Says it otherwise.")) == before


def test_every_file_of_the_worker_rebuilds(adaptor):
    folder = adaptor.toolchain.worker.parent
    (folder / "deep").mkdir()
    (folder / "deep" / "table.json").write_text("{}")
    keys = [make_key(adaptor)]
    for path in sorted(path for path in folder.rglob("*") if path.is_file() and "__pycache__" not in path.parts):
        touch(path)
        keys.append(make_key(adaptor))
    assert len(keys) >= 3
    assert len(set(keys)) == len(keys)


def test_every_file_that_runs_in_any_worker_rebuilds(adaptor, tmp_path, monkeypatch):
    runtime = Path(shutil.copytree(run.WORKER_MAIN.parents[1], tmp_path / "runtime"))
    monkeypatch.setattr(run, "_RUNTIME", runtime)
    keys = [make_key(adaptor)]
    for path in sorted(path for room in run.IN_WORKERS for path in (runtime / room).glob("*.py")):
        touch(path)
        keys.append(make_key(adaptor))
    assert len(keys) >= 16
    assert len(set(keys)) == len(keys)


@pytest.mark.parametrize("room", ["conversion/agreement.py", "tuning/search.py"])
def test_what_some_workers_import_rebuilds_only_these(adaptor, tmp_path, monkeypatch, room):
    runtime = Path(shutil.copytree(run.WORKER_MAIN.parents[1], tmp_path / "runtime"))
    monkeypatch.setattr(run, "_RUNTIME", runtime)
    before = make_key(adaptor)
    touch(runtime / room)
    code = "".join(path.read_text() for path in adaptor.toolchain.worker.parent.rglob("*.py"))
    assert (make_key(adaptor) != before) == (f"from hone_runtime.{room.partition('/')[0]}" in code)


@pytest.mark.parametrize("line", ["from hone_runtime import conversion", "import hone_runtime.conversion.agreement"])
def test_a_worker_that_imports_the_checks_in_any_way_depends_on_them(tmp_path, monkeypatch, line):
    runtime = Path(shutil.copytree(run.WORKER_MAIN.parents[1], tmp_path / "runtime"))
    monkeypatch.setattr(run, "_RUNTIME", runtime)
    worker = tmp_path / "hone_own" / "__init__.py"
    worker.parent.mkdir()
    worker.write_text(f"def transform(job):\n    {line}\n")
    before = run.digest_worker(worker)
    touch(runtime / "conversion" / "agreement.py")
    assert run.digest_worker(worker) != before


@pytest.mark.parametrize("room", ["learner", "signing", "contract", "values"])
def test_what_runs_in_no_worker_rebuilds_nothing(adaptor, tmp_path, monkeypatch, room):
    runtime = Path(shutil.copytree(run.WORKER_MAIN.parents[1], tmp_path / "runtime"))
    monkeypatch.setattr(run, "_RUNTIME", runtime)
    before = make_key(adaptor)
    for path in sorted((runtime / room).glob("*.py")):
        touch(path)
    assert make_key(adaptor) == before


def test_what_the_interpreter_leaves_rebuilds_nothing(adaptor):
    before = make_key(adaptor)
    (adaptor.toolchain.worker.parent / "__pycache__").mkdir(exist_ok=True)
    (adaptor.toolchain.worker.parent / "__pycache__" / "x.pyc").write_bytes(b"x")
    assert make_key(adaptor) == before


def test_a_worker_that_it_uses_rebuilds(tmp_path, monkeypatch):
    toolchain = read_catalogue().find_toolchain("litert_torch")
    copies = [
        shutil.copytree(worker.parent, tmp_path / worker.parent.name) / worker.name for worker in find_used(toolchain)
    ]
    assert [path.parent.name for path in copies] == ["hone_pytorch", "hone_litert"]
    monkeypatch.setattr(runtimes, "find_used", lambda _: copies)
    digests = [runtimes.digest_workers(toolchain)]
    for path in copies:
        touch(path)
        digests.append(runtimes.digest_workers(toolchain))
    assert len(set(digests)) == 3
