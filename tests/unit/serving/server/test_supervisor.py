"""The supervisor with real processes, which stand for those that serve."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from kedro_hone.serving.server.supervisor import Supervisor

SERVE = "import os, sys, time; time.sleep(float(sys.argv[2])); os.write(int(sys.argv[1]), b'1'); time.sleep(600)"
STUBBORN = f"import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN); {SERVE}"
FAIL = "import sys; sys.exit(3)"


class Run:
    """A supervisor in a thread of this process.

    Attributes:
        started: Its processes, the oldest first.
    """

    def __init__(self, *, count: int = 1, code: str = SERVE, grace: float = 5) -> None:
        self.started: list[subprocess.Popen[bytes]] = []
        self.announced = threading.Event()
        self.ended: list[int] = []
        reading, self._writing = os.pipe()
        supervisor = Supervisor(start=self._start, count=count, grace=grace, announce=self.announced.set)
        self._code = code
        self._thread = threading.Thread(target=lambda: self.ended.append(supervisor.run(reading)))
        self._thread.start()

    def _start(self, descriptor: int) -> subprocess.Popen[bytes]:
        command = [sys.executable, "-I", "-S", "-c", self._code, str(descriptor), "0"]
        self.started.append(subprocess.Popen(command, pass_fds=[descriptor]))
        return self.started[-1]

    def send(self, number: int) -> None:
        os.write(self._writing, bytes([number]))

    def wait(self, seconds: float = 60) -> int:
        self._thread.join(seconds)
        assert not self._thread.is_alive()
        return self.ended[0]

    def wait_for(self, count: int) -> None:
        due = time.monotonic() + 60
        while len(self.started) < count and time.monotonic() < due:
            self.send(signal.SIGCHLD)  # as the kernel does when one ends
            time.sleep(0.05)
        assert len(self.started) >= count


@pytest.mark.parametrize("count", [1, 3])
def test_it_starts_all_and_ends_them_on_a_signal(count: int) -> None:
    run = Run(count=count)
    assert run.announced.wait(60)
    assert len(run.started) == count
    run.send(signal.SIGTERM)
    assert run.wait() == 0
    assert [one.returncode for one in run.started] == [-signal.SIGTERM] * count


def test_a_killed_process_is_replaced_and_the_others_are_not() -> None:
    run = Run(count=2)
    assert run.announced.wait(60)
    first, second = run.started
    first.kill()
    run.wait_for(3)
    assert second.poll() is None
    run.send(signal.SIGINT)
    assert run.wait() == 0


def test_a_model_that_cannot_be_served_ends_the_server_at_once() -> None:
    run = Run(count=4, code=FAIL)
    run.wait_for(1)
    run.started[0].wait()
    run.send(signal.SIGCHLD)
    assert run.wait() == 3
    assert len(run.started) == 1
    assert not run.announced.is_set()


def test_a_process_that_does_not_end_is_killed_after_the_grace() -> None:
    run = Run(code=STUBBORN, grace=0)
    assert run.announced.wait(60)
    run.send(signal.SIGTERM)
    assert run.wait() == 0
    assert run.started[0].returncode == -signal.SIGKILL


def test_a_server_that_is_killed_leaves_no_process(tmp_path: Path) -> None:
    code = (
        "import subprocess, sys, time; from kedro_hone.serving.server.parents import end_with_parent\n"
        "if len(sys.argv) > 1: end_with_parent(); print('child', flush=True); time.sleep(600)\n"
        f"subprocess.Popen([sys.executable, {str(tmp_path / 'code.py')!r}, 'child']); time.sleep(600)"
    )
    (tmp_path / "code.py").write_text(code)
    source = Path(__file__).parents[4] / "src"
    with subprocess.Popen(
        [sys.executable, str(tmp_path / "code.py")], stdout=subprocess.PIPE, env={"PYTHONPATH": str(source)}
    ) as parent:
        assert parent.stdout is not None
        assert parent.stdout.readline() == b"child\n"
        parent.kill()
        assert parent.stdout.read() == b"", "the child, which has the other end of the pipe, ended"
