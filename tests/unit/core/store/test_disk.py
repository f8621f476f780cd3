from __future__ import annotations

import errno
import fcntl
import os
import shutil
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from hone_runtime.errors import HoneError
from kedro_hone.core.store.disk import Disk, append_line, explain_disk_errors, find_disk_error, remove_tree, write_file


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


@pytest.mark.parametrize("number", [errno.EROFS, errno.ENOSPC])
def test_the_folder_is_named_that_cannot_be_written(tmp_path, number):
    elsewhere = tmp_path / "elsewhere"
    for name, named in ((elsewhere / "x.json", elsewhere), (tmp_path / "store" / "tmp" / "x", tmp_path / "store")):
        with pytest.raises(HoneError) as caught, explain_disk_errors(tmp_path / "store"):
            raise OSError(number, os.strerror(number), str(name))
        assert f" {named} " in caught.value.what


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


def test_what_is_being_written_is_not_yet_among_what_is_kept(tmp_path, monkeypatch):
    disk, seen = Disk(tmp_path), []
    monkeypatch.setattr(os, "fsync", lambda _: seen.append([*(tmp_path / "values").iterdir()]))
    disk.write("values/v.json", b"1")
    assert (seen, disk.read("values/v.json")) == ([[]], b"1")


def test_a_disk_that_becomes_full_while_a_file_is_written_is_explained(tmp_path, monkeypatch):
    disk = Disk(tmp_path)

    def fail(_):
        raise OSError(errno.ENOSPC, "no space")

    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(HoneError) as caught:
        disk.write("values/v.json", b"1")
    assert (caught.value.slug, caught.value.what) == ("store-full", f"The disk that holds {tmp_path} is full.")
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == []


def test_what_another_process_removed_first_is_removed(tmp_path):
    disk = Disk(tmp_path)
    disk.write("values/v.json", b"1")
    for _ in range(2):
        disk.remove("values/v.json")
    assert disk.read("values/v.json") is None


def test_a_temporary_folder_is_removed_unless_moved_away(tmp_path):
    disk = Disk(tmp_path / "store")
    with disk.make_folder() as folder:
        (folder / "x").write_text("x")
    assert not folder.exists()
    with disk.make_folder() as folder:
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


def test_what_is_left_of_a_folder_that_another_process_removes_is_removed_too(tmp_path, monkeypatch):
    for name in ("x", "y"):
        (tmp_path / "a" / name).mkdir(parents=True)
    remove = shutil.rmtree

    def lose(folder):
        monkeypatch.setattr(shutil, "rmtree", remove)
        (folder / "x").rmdir()
        raise FileNotFoundError(folder / "x")

    monkeypatch.setattr(shutil, "rmtree", lose)
    remove_tree(tmp_path / "a")
    assert not (tmp_path / "a").exists()


@pytest.mark.attack(what="a link in the store, when it is emptied", who="store", stopped_by="links are not followed")
def test_a_link_is_removed_and_not_what_it_leads_to(tmp_path):
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "real")
    remove_tree(tmp_path / "link")
    assert (tmp_path / "real").exists()
    (tmp_path / "file").write_text("x")
    remove_tree(tmp_path / "file")
    assert not (tmp_path / "file").exists()


WORK = """
import os, sys
from pathlib import Path
from kedro_hone.core.store.disk import Disk
with Disk(Path(sys.argv[1])).make_folder() as folder:
    (folder / "x").write_text("x")
    folder.chmod(0o555)
    print(folder, flush=True)
    sys.stdin.readline()
"""


def start_work(root, *prefix):
    """Start a process that works in a temporary folder until it is told to end; return it and the folder."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    command = [*prefix, sys.executable, "-c", WORK, str(root)]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment)
    return process, Path(process.stdout.readline().strip())


def test_opening_keeps_what_the_living_work_on(tmp_path, caplog):
    process, folder = start_work(tmp_path)
    with process, Disk(tmp_path).make_folder() as own:
        Disk(tmp_path)
        assert (folder / "x").exists()
        assert own.exists()
        process.communicate("\n")
    assert not folder.exists()
    assert caplog.messages == []


def test_a_leftover_that_another_process_removes_meanwhile_is_none(tmp_path, monkeypatch, caplog):
    leftover = tmp_path / "tmp" / "leftover"
    leftover.mkdir(parents=True)
    real = os.open

    def open_late(path, *rest):
        monkeypatch.setattr(os, "open", real)
        remove_tree(leftover)
        return real(path, *rest)

    monkeypatch.setattr(os, "open", open_late)
    Disk(tmp_path)
    assert caplog.messages == []


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root")
def test_opening_keeps_what_another_namespace_works_on(tmp_path):
    """Its processes cannot be seen from here, and have numbers of their own."""
    process, folder = start_work(tmp_path, "unshare", "--pid", "--fork")
    with process:
        Disk(tmp_path)
        assert (folder / "x").exists()
        process.communicate("\n")


def test_opening_removes_what_the_dead_left(tmp_path):
    process, folder = start_work(tmp_path)
    with process:
        process.kill()
        os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)  # dead, and not yet reaped
        assert (folder / "x").exists()
        Disk(tmp_path)
        assert not folder.exists()


def test_a_leftover_that_cannot_be_removed_is_told_and_the_store_opens(tmp_path, monkeypatch, caplog):
    leftover = tmp_path / "tmp" / "leftover"
    leftover.mkdir(parents=True)

    remove = shutil.rmtree

    def refuse_one(folder):
        if folder == leftover:
            raise PermissionError(errno.EACCES, "not yours")
        remove(folder)

    monkeypatch.setattr(shutil, "rmtree", refuse_one)
    disk = Disk(tmp_path)

    assert caplog.messages == [f"The leftover {leftover} cannot be removed: [Errno {errno.EACCES}] not yours"]
    disk.write("values/v.json", b"1")
    assert disk.read("values/v.json") == b"1"


def test_what_is_no_folder_is_no_leftover(tmp_path):
    (tmp_path / "tmp").mkdir()
    (tmp_path / "real").mkdir()
    (tmp_path / "tmp" / "link").symlink_to(tmp_path / "real")
    os.mkfifo(tmp_path / "tmp" / "pipe")
    Disk(tmp_path)
    assert {path.name for path in (tmp_path / "tmp").iterdir()} == {"link", "pipe"}
    assert (tmp_path / "real").exists()


def test_a_folder_that_is_taken_for_a_leftover_before_it_is_locked_is_made_again(tmp_path, monkeypatch):
    disk, made = Disk(tmp_path), []
    real = os.open

    def open_late(path, *rest):
        if not made:
            made.append(path)
            monkeypatch.setattr(os, "open", real)
            Disk(tmp_path)  # another process opens the store between making the folder and locking it
            assert not path.exists()
        return real(path, *rest)

    monkeypatch.setattr(os, "open", open_late)
    with disk.make_folder() as folder:
        assert folder.exists()
    assert made != [folder]


def test_a_folder_that_is_removed_while_it_waits_for_its_lock_is_made_again(tmp_path, monkeypatch):
    disk, real = Disk(tmp_path), fcntl.flock
    opened = len([*Path("/proc/self/fd").iterdir()])

    def lock_late(*given):
        monkeypatch.setattr(fcntl, "flock", real)
        Disk(tmp_path)  # another process opens the store after the folder was opened
        real(*given)

    monkeypatch.setattr(fcntl, "flock", lock_late)
    with disk.make_folder() as folder:
        assert [*(tmp_path / "tmp").iterdir()] == [folder]
    assert len([*Path("/proc/self/fd").iterdir()]) == opened


def test_of_a_copy_the_file_that_is_written_names_the_disk(tmp_path):
    error = OSError(errno.ENOSPC, "no space", "/elsewhere/model.onnx", None, str(tmp_path / "tmp" / "model.onnx"))
    known = find_disk_error(error, tmp_path)
    assert known is not None
    assert known.what == f"The disk that holds {tmp_path} is full."


def test_a_line_is_added_when_nobody_else_adds_one(tmp_path):
    path, adding = tmp_path / "lines", threading.Event()
    append_line(path, "one")

    def add():
        adding.set()
        append_line(path, "three")

    with path.open("ab", buffering=0) as stream:
        fcntl.flock(stream, fcntl.LOCK_EX)
        thread = threading.Thread(target=add)
        thread.start()
        assert adding.wait(60)
        thread.join(0.05)
        assert path.read_text() == "one\n"
        stream.write(b"two\n")
    thread.join(60)

    assert path.read_text().split() == ["one", "two", "three"]


def test_a_line_that_was_cut_short_takes_no_other_one_with_it(tmp_path):
    path = tmp_path / "lines"
    path.write_bytes(b"whole\ntor")
    append_line(path, "next")
    append_line(path, "last")
    assert path.read_text() == "whole\ntor\nnext\nlast\n"


def test_of_a_line_that_does_not_fit_nothing_is_written(tmp_path):
    path = tmp_path / "lines"
    append_line(path, "whole")
    program = (
        "import resource, signal, sys; from pathlib import Path; from kedro_hone.core.store.disk import append_line\n"
        "signal.signal(signal.SIGXFSZ, signal.SIG_IGN); resource.setrlimit(resource.RLIMIT_FSIZE, (10, 10))\n"
        "append_line(Path(sys.argv[1]), 'longer than ten bytes')"
    )
    done = subprocess.run([sys.executable, "-c", program, path], capture_output=True, text=True, check=False)
    assert "OSError: [Errno 28]" in done.stderr
    assert path.read_text() == "whole\n"
