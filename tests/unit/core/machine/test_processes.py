from __future__ import annotations

import os
import socket
import subprocess
import sys
import time

import pytest

from kedro_hone.core.machine.processes import (
    STALE_AFTER_SECONDS,
    OtherLoad,
    may_be_alive,
    name_process,
    read_cores,
    read_own,
)

TICK = os.sysconf("SC_CLK_TCK")
BURN = "import time\nwhile time.process_time() < 0.3: pass\n"


def test_a_name_tells_whether_its_process_may_be_alive():
    now = time.time()
    assert may_be_alive(name_process(), changed=now)
    done = subprocess.Popen([sys.executable, "-c", "pass"])
    done.wait()
    host = socket.gethostname()
    assert not may_be_alive(f"{host}:{done.pid}:1", changed=now)
    assert not may_be_alive(f"{host}:{os.getpid()}:1", changed=now)  # the number was given to another process
    assert may_be_alive("elsewhere:1:1", changed=now)
    assert not may_be_alive("elsewhere:1:1", changed=now - 2 * STALE_AFTER_SECONDS)
    assert not may_be_alive(None, changed=now)


def write_proc(folder, *, cores, processes):
    """Write ``/proc/stat`` and ``/proc/<pid>/stat`` as Linux does, in ticks."""
    lines = ["cpu  " + " ".join("0" * 10), *(f"cpu{core} {row}" for core, row in cores.items()), "intr 0"]
    folder.mkdir(exist_ok=True)
    (folder / "stat").write_text("\n".join(lines) + "\n")
    for pid, (parent, times) in processes.items():
        (folder / str(pid)).mkdir(exist_ok=True)
        text = f"{pid} (a ) name) S {parent} 0 0 0 0 0 0 0 0 0 {times} 20 0 1 0 77 0"
        (folder / str(pid) / "stat").write_text(text)
    return folder


def test_cores_are_those_that_the_process_may_use(tmp_path):
    # user nice system idle iowait irq softirq steal; guest time is part of user
    cores = {0: "100 10 40 500 30 1 2 7 50 0", 1: "9999 0 0 0 0 0 0 0 0 0"}
    assert read_cores({0}, proc=write_proc(tmp_path, cores=cores, processes={})) == (160 / TICK, 690 / TICK)


def test_own_time_is_that_of_the_process_and_of_all_that_it_started(tmp_path):
    processes = {10: (1, "1 2 4 8"), 11: (10, "16 32 64 128"), 12: (11, "256 0 0 0"), 99: (1, "5000 0 0 0")}
    assert read_own(10, proc=write_proc(tmp_path, cores={}, processes=processes)) == 511 / TICK


def test_the_share_of_others_is_what_the_cores_did_for_no_process_of_ours(tmp_path):
    zero = "0 0 0 0 0 0 0 0 0 0"
    proc = write_proc(tmp_path, cores={0: zero, 1: zero}, processes={10: (1, "0 0 0 0")})
    load = OtherLoad(cores={0, 1}, pid=10, proc=proc)
    write_proc(proc, cores={0: "100 0 0 0 0 0 0 0 0 0", 1: "30 0 0 70 0 0 0 0 0 0"}, processes={10: (1, "50 0 0 20")})
    assert load.share() == pytest.approx(0.30)


def test_there_is_no_share_where_the_system_does_not_tell(tmp_path):
    assert OtherLoad(cores={0}, pid=10, proc=tmp_path / "none").share() is None
    still = write_proc(tmp_path, cores={0: "0 0 0 0 0 0 0 0 0 0"}, processes={10: (1, "0 0 0 0")})
    assert OtherLoad(cores={0}, pid=10, proc=still).share() is None


def test_what_a_grandchild_used_is_ours_while_it_lives_and_after():
    before = read_own(os.getpid())
    start = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {BURN!r}]); input()"
    with subprocess.Popen([sys.executable, "-c", start], stdin=subprocess.PIPE, text=True) as child:
        deadline = time.monotonic() + 300
        while (living := read_own(os.getpid()) - before) < 0.25 and time.monotonic() < deadline:
            time.sleep(0.05)
        child.communicate("\n", timeout=300)
    assert living >= 0.25
    assert read_own(os.getpid()) - before >= living


def test_a_share_of_this_machine_is_a_share():
    load = OtherLoad()
    subprocess.run([sys.executable, "-c", BURN], check=True)
    assert 0 <= load.share() <= 1
