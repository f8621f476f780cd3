from __future__ import annotations

import errno
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from kedro_hone.core.errors import HoneError
from kedro_hone.core.store.disk import Temporary, explain_disk_errors, remove_tree, write_file


@pytest.mark.parametrize(
    ("number", "slug"),
    [
        (errno.ENOSPC, "store-full"),
        (errno.EDQUOT, "store-full"),
        (errno.EROFS, "store-read-only"),
        (errno.EACCES, "store-read-only"),
        (errno.EPERM, "store-read-only"),
    ],
)
def test_disk_errors_are_explained(tmp_path, number, slug):
    with pytest.raises(HoneError) as caught, explain_disk_errors(tmp_path):
        raise OSError(number, os.strerror(number))
    assert caught.value.slug == slug
    assert str(tmp_path) in caught.value.what
    assert os.strerror(number) in caught.value.why
    assert {"store-full": "Free some space", "store-read-only": "Give this user the right"}[slug] in caught.value.hint


def test_other_errors_pass(tmp_path):
    with pytest.raises(IsADirectoryError), explain_disk_errors(tmp_path):
        raise OSError(errno.EISDIR, "x")
    with pytest.raises(ValueError, match="x"), explain_disk_errors(tmp_path):
        raise ValueError("x")


@pytest.mark.parametrize("stage", [None, "stage"])
def test_an_interrupted_writing_leaves_the_old_file(tmp_path, monkeypatch, stage):
    path, stage = tmp_path / "x.json", tmp_path / stage if stage else None
    if stage:
        stage.mkdir()
    write_file(path, b"old", stage=stage)

    def fail(_):
        raise OSError(errno.ENOSPC, "no space")

    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(OSError, match="no space"):
        write_file(path, b"new", stage=stage)
    assert path.read_bytes() == b"old"
    assert [found.name for found in tmp_path.rglob("*") if found.is_file()] == ["x.json"]


def test_a_file_is_on_the_disk_before_it_takes_the_place_of_the_old_one(tmp_path, monkeypatch):
    path, seen = tmp_path / "x.json", []
    path.write_bytes(b"old")
    mode = path.stat().st_mode
    monkeypatch.setattr(os, "fsync", lambda handle: seen.append((path.read_bytes(), os.fstat(handle).st_size)))
    write_file(path, b"newer")
    assert (seen, path.read_bytes()) == ([(b"old", 5)], b"newer")
    assert path.stat().st_mode == mode


def test_a_temporary_folder_is_removed_unless_moved_away(tmp_path):
    temporary = Temporary(tmp_path / "tmp")
    with temporary.make_folder() as folder:
        (folder / "x").write_text("x")
    assert not folder.exists()
    with temporary.make_folder() as folder:
        folder.rename(tmp_path / "kept")
    assert (tmp_path / "kept").exists()


def test_read_only_folders_are_removed_too(tmp_path):
    deep = tmp_path / "a" / "b"
    deep.mkdir(parents=True)
    (deep / "x").write_text("x")
    deep.chmod(0o555)
    deep.parent.chmod(0o555)
    remove_tree(tmp_path / "a")
    assert not (tmp_path / "a").exists()
    remove_tree(tmp_path / "a")


def test_a_link_is_removed_and_not_what_it_leads_to(tmp_path):
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "real")
    remove_tree(tmp_path / "link")
    assert (tmp_path / "real").exists()
    (tmp_path / "file").write_text("x")
    remove_tree(tmp_path / "file")
    assert not (tmp_path / "file").exists()


def test_opening_keeps_what_the_living_work_on(tmp_path):
    with Temporary(tmp_path).make_folder() as folder:
        Temporary(tmp_path)
        assert folder.exists()


def test_opening_removes_what_the_dead_left(tmp_path):
    script = (
        "import os, sys; from pathlib import Path; from kedro_hone.core.store.disk import Temporary\n"
        "context = Temporary(Path(sys.argv[1])).make_folder(); print(context.__enter__(), flush=True)\n"
        "os.kill(os.getpid(), 9)"
    )
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    command = [sys.executable, "-c", script, str(tmp_path)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment)
    with process:
        left = process.stdout.read().strip()
        os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)  # dead, and not yet reaped
        assert Path(left).exists()
        Temporary(tmp_path)
        assert not Path(left).exists()


def test_a_number_that_was_given_again_is_another_process(tmp_path):
    with Temporary(tmp_path).make_folder() as folder:
        pid, start, namespace, _ = folder.name.split("-")
        (tmp_path / f"{pid}-{int(start) + 1}-{namespace}-ab").mkdir()
        Temporary(tmp_path)
        assert [path.name for path in tmp_path.iterdir()] == [folder.name]


def test_another_namespace_is_judged_by_age(tmp_path):
    young, old, foreign = tmp_path / "1-1-5-ab", tmp_path / "1-1-5-cd", tmp_path / "notes"
    for folder in (young, old, foreign):
        folder.mkdir()
    for folder in (old, foreign):
        os.utime(folder, times=(time.time() - 30 * 86400,) * 2)
    Temporary(tmp_path)
    assert young.exists()
    assert not old.exists()
    assert foreign.exists()
