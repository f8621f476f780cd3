from __future__ import annotations

import logging
import os
import re
import signal
import subprocess
import sys
import threading
import time
from contextlib import suppress
from pathlib import Path

import pytest

from kedro_hone.core.locks import hold_devices, hold_lock, read_holder

SOURCE = Path(__file__).parents[3] / "src"
HANG = 600
"""Seconds after which something is taken to hang."""

HOLDER = """
import sys, time
from pathlib import Path
from kedro_hone.core.locks import hold_devices
with hold_devices(Path(sys.argv[1]), ["cuda:0"], purpose="run 42"):
    print("held", flush=True)
    sys.stdin.read()
"""


@pytest.fixture
def other(tmp_path):
    """Another process that holds ``cuda:0`` until its input ends."""
    process = subprocess.Popen(
        [sys.executable, "-c", HOLDER, str(tmp_path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": str(SOURCE)},
    )
    with process:
        assert process.stdout.readline() == "held\n"
        yield process
        process.kill()


def wait_in_thread(folder: Path, entered: list[float]) -> threading.Thread:
    def take() -> None:
        with hold_devices(folder, ["cuda:0"]) as waited:
            entered.append(waited)

    thread = threading.Thread(target=take)
    thread.start()
    return thread


def test_a_free_lock_is_taken_at_once_and_says_who_holds_it(tmp_path):
    path = tmp_path / "deep" / "x.lock"
    with hold_lock(path, purpose="building"):
        assert f"process {os.getpid()} (building) since 20" in (read_holder(path) or "")
    with hold_lock(path, purpose="building again"):
        assert "building again" in (read_holder(path) or "")


def test_devices_do_not_share_a_lock(tmp_path):
    with hold_devices(tmp_path, ["cuda:0"]), hold_devices(tmp_path, ["cuda:1"]), hold_devices(tmp_path, ["cpu"]):
        names = sorted(path.name for path in tmp_path.iterdir())
    assert names == ["device-cpu.lock", "device-cuda-0.lock", "device-cuda-1.lock"]


@pytest.mark.parametrize("devices", [["cuda:0", "rocm:0"], ["rocm:0", "cuda:0"]])
def test_several_devices_are_taken_in_one_order(tmp_path, other, caplog, devices):
    def take() -> None:
        with hold_devices(tmp_path, [*devices, *devices]):
            entered.append(sorted(path.name for path in tmp_path.iterdir()))

    entered: list[list[str]] = []
    thread = threading.Thread(target=take)
    with caplog.at_level(logging.WARNING):
        thread.start()
        end = time.monotonic() + HANG
        while "Waiting" not in caplog.text and time.monotonic() < end:
            thread.join(0.02)
    # It waits for the first one, and has not taken the second: who holds that one may want the first.
    assert [path.name for path in tmp_path.iterdir()] == ["device-cuda-0.lock"]
    assert entered == []
    other.stdin.close()
    thread.join(HANG)
    assert entered == [["device-cuda-0.lock", "device-rocm-0.lock"]]


def test_who_waits_is_told_who_holds_it(tmp_path, other, caplog):
    entered: list[float] = []
    with caplog.at_level(logging.WARNING):
        thread = wait_in_thread(tmp_path, entered)
        end = time.monotonic() + HANG
        while "Waiting" not in caplog.text and time.monotonic() < end:
            thread.join(0.02)
        assert entered == []
        other.stdin.close()
        thread.join(HANG)
    assert len(entered) == 1
    assert entered[0] > 0
    assert f"held by process {other.pid} (run 42 on cuda:0) since" in caplog.text


def test_who_waits_long_is_told_again_for_whom(tmp_path, other, caplog, monkeypatch):
    monkeypatch.setattr("kedro_hone.core.locks._LOG_SECONDS", 1.0)
    with caplog.at_level(logging.WARNING):
        thread = wait_in_thread(tmp_path, [])
        end = time.monotonic() + HANG
        while caplog.text.count("Waiting") < 3 and time.monotonic() < end:
            thread.join(0.02)
        other.stdin.close()
        thread.join(HANG)
    assert re.search(rf"after \d+ s: held by process {other.pid} \(run 42 on cuda:0\) since 20", caplog.text)


def test_a_person_ends_the_wait(tmp_path, other):
    stopped: list[bool] = []

    def look() -> bool:
        stopped.append(len(stopped) > 2)
        return stopped[-1]

    with pytest.raises(KeyboardInterrupt), hold_devices(tmp_path, ["cuda:0"], stopped=look):
        pass
    assert stopped[-1]


def test_a_wait_that_began_after_a_person_ended_the_search_goes_on(tmp_path, other):
    """What was measured so far is confirmed: Ctrl-C again ends the run, since it is the default one's then."""
    closing = threading.Timer(1.5, other.stdin.close)
    closing.start()
    with hold_devices(tmp_path, ["cuda:0"], stopped=lambda: True) as waited:
        assert waited > 0
    closing.join()


def test_a_killed_holder_releases_it(tmp_path, other):
    entered: list[float] = []
    thread = wait_in_thread(tmp_path, entered)
    os.kill(other.pid, signal.SIGKILL)
    thread.join(HANG)
    assert len(entered) == 1


def test_an_error_inside_releases_it(tmp_path):
    with pytest.raises(ZeroDivisionError), hold_devices(tmp_path, ["cpu"]):
        _ = 1 / 0
    with hold_devices(tmp_path, ["cpu"]):
        pass


@pytest.mark.parametrize("text", ["", "{", "3", '{"pid": 1}'])
def test_a_holder_who_is_writing_is_nobody(tmp_path, text):
    (tmp_path / "x.lock").write_text(text)
    assert read_holder(tmp_path / "x.lock") is None


def test_who_waited_for_a_lock_that_its_holder_removed_holds_the_one_that_others_find(tmp_path):
    path, entered, done = tmp_path / "folder" / "x.lock", threading.Event(), threading.Event()

    def take() -> None:
        with hold_lock(path, purpose="waiting"):
            entered.set()
            done.wait(HANG)

    with hold_lock(path, purpose="removing"):
        thread = threading.Thread(target=take)
        thread.start()
        time.sleep(0.2)  # it waits for the file that is removed now
        path.unlink()
        path.parent.rmdir()
    assert entered.wait(HANG)
    with pytest.raises(BlockingIOError), hold_lock(path, purpose="third", waits=False):
        pass
    done.set()
    thread.join()


def test_a_wait_has_a_limit(tmp_path, other):
    started = time.monotonic()
    with (
        pytest.raises(TimeoutError, match=rf"Held by process {other.pid} \(run 42"),
        hold_lock(tmp_path / "device-cuda-0.lock", purpose="waiting", limit=0.2),
    ):
        pass
    assert time.monotonic() - started < HANG
    with hold_lock(tmp_path / "free.lock", purpose="free", limit=0):
        pass


@pytest.mark.attack(
    what="a lock's file that is a link to another file",
    who="store",
    stopped_by="links are not followed, and only a description of a holder is replaced",
)
@pytest.mark.parametrize("link", [os.symlink, os.link])
def test_what_another_file_contains_is_not_lost(tmp_path, link):
    victim, path = tmp_path / "victim", tmp_path / "x.lock"
    victim.write_text("precious")
    link(victim, path)
    with suppress(OSError), hold_lock(path, purpose="building"):
        assert link is os.link
    assert victim.read_text() == "precious"


@pytest.mark.parametrize(
    "make", [os.mkdir, os.mkfifo, lambda path: path.symlink_to(path), lambda path: path.symlink_to("new")]
)
def test_only_a_regular_file_is_a_lock(tmp_path, make):
    make(tmp_path / "x.lock")
    with pytest.raises(OSError, match=r"x\.lock"), hold_lock(tmp_path / "x.lock", purpose="building"):
        pass
    assert [path.name for path in tmp_path.iterdir()] == ["x.lock"]


@pytest.mark.parametrize("text", ["", "\0" * 90, '{"pid": 1}', '{"pid": 12, "purpose": "a longer one than the next'])
def test_the_description_of_an_earlier_holder_is_replaced(tmp_path, text):
    (tmp_path / "x.lock").write_text(text)
    with hold_lock(tmp_path / "x.lock", purpose="next"):
        assert "(next)" in (read_holder(tmp_path / "x.lock") or "")
