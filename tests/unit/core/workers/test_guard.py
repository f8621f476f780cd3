from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from kedro_hone.core.workers.guard import main as guard_module
from kedro_hone.core.workers.guard.log import ClippedLog
from kedro_hone.core.workers.guard.processes import Descendants, find_descendants

GUARD = Path(guard_module.__file__)


class Guard:
    """A guard around a shell command, spoken to by hand."""

    def __init__(self, tmp_path: Path, script: str, **changes):
        self.log = tmp_path / "log"
        config = {
            "command": ["/bin/sh", "-c", script],
            "environment": {"PATH": os.environ["PATH"]},
            "folder": str(tmp_path),
            "log": str(self.log),
            "log_bytes": 4096,
            "host": os.getpid(),
            "keep": [],
            "seconds": 600,
            "memory_bytes": 1 << 30,
            "address_bytes": None,
            "file_bytes": None,
            "processes": None,
            "isolation": None,
            "interval": 0.02,
        }
        self.process = subprocess.Popen(
            [sys.executable, "-I", "-S", str(GUARD)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        self.send(config | changes)

    def send(self, message):
        self.process.stdin.write(json.dumps(message) + "\n")
        self.process.stdin.flush()

    def hear(self, key):
        for line in self.process.stdout:
            message = json.loads(line)
            if key in message:
                return message[key]
        return None

    def close(self):
        self.process.kill()
        self.process.wait()
        self.process.stdin.close()
        self.process.stdout.close()


@pytest.fixture
def guard(tmp_path):
    guards = []

    def make(script, **changes):
        guards.append(Guard(tmp_path, script, **changes))
        return guards[-1]

    yield make
    for one in guards:
        one.close()


def test_it_reports_how_the_worker_ended(guard):
    end = guard("echo hello; exit 7").hear("ended")
    assert (end["exit"], end["signal"], end["reason"], end["left_behind"]) == (7, None, None, 0)
    end = guard("kill -ABRT $$").hear("ended")
    assert (end["exit"], end["signal"], end["reason"]) == (None, 6, None)


def test_the_log_holds_both_streams(guard):
    one = guard("echo out; echo err >&2")
    one.hear("ended")
    assert one.log.read_text() == "out\nerr\n"


def test_a_worker_that_prints_does_not_wait_for_anybody(guard):
    one = guard("head -c 20000000 /dev/zero | tr '\\0' x; echo; echo end")
    end = one.hear("ended")
    assert end["exit"] == 0
    assert end["log_left_out"] > 19_000_000
    assert one.log.stat().st_size < 5000
    assert one.log.read_text().endswith("end\n")


def test_a_program_that_does_not_exist(guard):
    end = guard("", command=["/no/such/program"]).hear("ended")
    assert end["reason"] == "not-started"
    assert "/no/such/program" in end["detail"]


def test_the_end_of_its_input_is_the_end(guard):
    one = guard("sleep 100 & setsid sleep 100 & wait")
    pid = one.hear("started")
    one.process.stdin.close()
    end = one.hear("ended")
    assert (end["signal"], end["reason"]) == (9, "closed")
    assert not Path(f"/proc/{pid}").exists()
    one.process.stdin = Path(os.devnull).open("w")  # noqa: SIM115 - closed by the fixture


def test_another_parent_is_the_end(guard):
    assert guard("sleep 100", host=1).hear("ended")["reason"] == "closed"


def test_it_ends_with_its_worker_when_it_is_told_to(guard):
    one = guard("sleep 100")
    one.hear("started")
    one.process.terminate()
    assert one.hear("ended")["reason"] == "terminated"


def test_time_that_it_stands_still_does_not_count(guard, tmp_path):
    for limit in (3.0, 30.0, 120.0):  # what it does besides standing still has to fit into it
        go = tmp_path / f"go-{limit}"
        one = guard(f"until test -e {go}; do sleep 0.01; done; exit 5", seconds=limit)
        one.hear("started")
        one.send({"do": "pause"})
        if one.hear("paused") is not True:
            continue
        time.sleep(limit + 0.5)
        go.touch()
        one.send({"do": "resume"})
        end = one.hear("ended")
        if end["reason"] is None:
            break
    assert (end["exit"], end["reason"]) == (5, None)
    assert end["seconds"] < limit


def test_pause_reaches_children_that_left_the_session(guard, tmp_path):
    one = guard(f"setsid sh -c 'echo $$ > {tmp_path}/child; exec sleep 100' & sleep 100")
    one.hear("started")
    child = tmp_path / "child"
    while not (child.exists() and child.read_text().strip()):
        time.sleep(0.01)
    one.send({"do": "pause"})
    one.hear("paused")
    stat = Path(f"/proc/{child.read_text().strip()}/stat")
    assert stat.read_text().rpartition(")")[2].split()[0] == "T"
    one.send({"do": "kill", "reason": "time-out"})
    assert one.hear("ended")["reason"] == "time-out"
    assert not stat.exists()


def test_the_log_in_pieces(tmp_path):
    log = ClippedLog(str(tmp_path / "log"), 20)
    for letter in b"abcdefghijklmnopqrstuvwxyz":
        log.add(bytes([letter]) * 3)
    log.finish()
    assert (tmp_path / "log").read_bytes() == b"aaabbbcccd\n[58 bytes left out]\nwxxxyyyzzz"


def test_a_short_log_is_whole(tmp_path):
    log = ClippedLog(str(tmp_path / "log"), 20)
    log.add(b"0123456789")
    log.add(b"abcdefghij")
    log.finish()
    assert (tmp_path / "log").read_bytes() == b"0123456789abcdefghij"
    assert log.left_out == 0


def test_a_full_disk_costs_the_log_and_nothing_else():
    log = ClippedLog("/dev/full", 20)
    log.add(b"x" * 100)
    log.finish()
    assert log.left_out == 100


def test_descendants_and_their_memory():
    with subprocess.Popen(["/bin/sh", "-c", "sleep 100 & wait"]) as shell:
        try:
            descendants = Descendants()
            end = time.monotonic() + 600
            while len(find_descendants(shell.pid)) < 1 and time.monotonic() < end:
                time.sleep(0.01)
            descendants.refresh(force=True)
            assert shell.pid in descendants.pids
            assert descendants.measure() > 0
            assert 0 < descendants.measure_shared_once() <= descendants.measure()
        finally:
            for pid in find_descendants(shell.pid):
                os.kill(pid, 9)
            shell.kill()


def test_a_process_that_is_gone_has_no_memory():
    descendants = Descendants()
    descendants.pids = [2**22 + 1]
    assert descendants.measure() == descendants.measure_shared_once() == 0
    descendants.send(9)
