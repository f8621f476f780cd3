from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
from pathlib import Path
from unittest.mock import Mock

import pytest

from kedro_hone.core.machine import processes
from kedro_hone.core.machine.processes import (
    STALE_AFTER_SECONDS,
    identify_process,
    may_be_alive,
    read_load,
    share_of_others,
)

TICK = os.sysconf("SC_CLK_TCK")
BURN = "import time\nwhile time.process_time() < 0.3: pass\n"


def test_a_name_tells_whether_its_process_may_be_alive():
    now = time.time()
    assert may_be_alive(identify_process(), changed=now)
    done = subprocess.Popen([sys.executable, "-c", "pass"])
    done.wait()
    host = socket.gethostname()
    assert not may_be_alive(f"{host}:{done.pid}:1", changed=now)
    assert not may_be_alive(f"{host}:{os.getpid()}:1", changed=now)  # the number was given to another process
    assert may_be_alive("elsewhere:1:1", changed=now)
    assert not may_be_alive("elsewhere:1:1", changed=now - 2 * STALE_AFTER_SECONDS)
    assert not may_be_alive(None, changed=now)


@pytest.fixture
def write_proc(tmp_path, monkeypatch):
    """Writes ``/proc/stat`` and ``/proc/<pid>/stat`` as Linux does, in ticks; we are the process 10, on core 0."""
    monkeypatch.setattr(processes, "_PROC", tmp_path)
    monkeypatch.setattr(os, "getpid", lambda: 10)
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0})

    def write(*, cores, processes):
        lines = ["cpu  " + " ".join("0" * 10), *(f"cpu{core} {row}" for core, row in cores.items()), "intr 0"]
        (tmp_path / "stat").write_text("\n".join(lines) + "\n")
        for pid, (parent, times) in processes.items():
            (tmp_path / str(pid)).mkdir(exist_ok=True)
            text = f"{pid} (a ) name) S {parent} 0 0 0 0 0 0 0 0 0 {times} 20 0 1 0 77 0"
            (tmp_path / str(pid) / "stat").write_text(text)

    return write


ZERO = "0 0 0 0 0 0 0 0 0 0"


def test_cores_are_those_that_the_process_may_use(write_proc):
    # user nice system idle iowait irq softirq steal; guest time is part of user
    write_proc(cores={0: ZERO, 1: ZERO}, processes={})
    load = read_load()
    write_proc(cores={0: "100 10 40 500 30 1 2 7 50 0", 1: "9999 0 0 0 0 0 0 0 0 0"}, processes={})
    assert share_of_others(load) == pytest.approx(160 / 690)


def test_own_time_is_that_of_the_process_and_of_all_that_it_started(write_proc):
    started = {10: (1, "1 2 4 8"), 11: (10, "16 32 64 128"), 12: (11, "256 0 0 0"), 99: (1, "5000 0 0 0")}
    write_proc(cores={0: ZERO}, processes={pid: (parent, "0 0 0 0") for pid, (parent, _) in started.items()})
    load = read_load()
    write_proc(cores={0: "1000 0 0 0 0 0 0 0 0 0"}, processes=started)
    assert share_of_others(load) == pytest.approx((1000 - 511) / 1000)


def test_the_share_of_others_is_what_the_cores_did_for_no_process_of_ours(write_proc, monkeypatch):
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0, 1})
    write_proc(cores={0: ZERO, 1: ZERO}, processes={10: (1, "0 0 0 0")})
    load = read_load()
    write_proc(cores={0: "100 0 0 0 0 0 0 0 0 0", 1: "30 0 0 70 0 0 0 0 0 0"}, processes={10: (1, "50 0 0 20")})
    assert share_of_others(load) == pytest.approx(0.30)


def test_processes_of_other_users_that_are_hidden_are_others(write_proc, monkeypatch, tmp_path):
    """With ``hidepid=1`` their folders are listed and cannot be read: the load was unknown, and its gate held."""
    read = Path.read_text

    def hide(path, **options):
        if path == tmp_path / "99" / "stat":
            raise PermissionError(path)
        return read(path, **options)

    monkeypatch.setattr(Path, "read_text", hide)
    processes = {10: (1, "0 0 0 0"), 99: (1, "0 0 0 0")}
    write_proc(cores={0: ZERO}, processes=processes)
    load = read_load()
    write_proc(cores={0: "100 0 0 0 0 0 0 0 0 0"}, processes={10: (1, "40 0 0 0"), 99: (1, "60 0 0 0")})
    assert share_of_others(load) == pytest.approx(0.6)
    monkeypatch.setattr(os, "kill", Mock(side_effect=PermissionError))  # as that of another user's process
    assert may_be_alive(f"{socket.gethostname()}:99:77", changed=0)


def test_there_is_no_share_where_the_system_does_not_tell(write_proc):
    assert share_of_others(read_load()) is None  # there is no file yet
    write_proc(cores={0: ZERO}, processes={10: (1, "0 0 0 0")})
    assert share_of_others(read_load()) is None


def test_a_process_that_ended_and_that_nobody_waited_for_is_dead():
    with subprocess.Popen([sys.executable, "-c", "pass"], stdout=subprocess.PIPE) as child:
        fields = processes._read_stat(child.pid)
        child.stdout.read()  # it ended
        deadline = time.monotonic() + 300
        while processes._read_stat(child.pid)[0] != "Z" and time.monotonic() < deadline:
            time.sleep(0.01)
        assert not may_be_alive(f"{socket.gethostname()}:{child.pid}:{fields[19]}", changed=time.time())


def test_what_a_grandchild_used_is_ours_while_it_lives_and_after():
    before = processes._read_own()
    start = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {BURN!r}]); input()"
    with subprocess.Popen([sys.executable, "-c", start], stdin=subprocess.PIPE, text=True) as child:
        deadline = time.monotonic() + 300
        while (living := processes._read_own() - before) < 0.25 and time.monotonic() < deadline:
            time.sleep(0.05)
        child.communicate("\n", timeout=300)
    assert living >= 0.25
    assert processes._read_own() - before >= living


def test_a_share_of_this_machine_is_a_share():
    load = read_load()
    subprocess.run([sys.executable, "-c", BURN], check=True)
    assert 0 <= share_of_others(load) <= 1
