from __future__ import annotations

import os
import socket
import subprocess
import sys
import time

from kedro_hone.core.machine import processes


def test_a_name_tells_whether_its_process_may_be_alive():
    now = time.time()
    assert processes.may_be_alive(processes.name_process(), changed=now)
    done = subprocess.Popen([sys.executable, "-c", "pass"])
    done.wait()
    host = socket.gethostname()
    assert not processes.may_be_alive(f"{host}:{done.pid}:1", changed=now)
    assert not processes.may_be_alive(f"{host}:{os.getpid()}:1", changed=now)  # the number was given to another process
    assert processes.may_be_alive("elsewhere:1:1", changed=now)
    assert not processes.may_be_alive("elsewhere:1:1", changed=now - 2 * processes.STALE_AFTER_SECONDS)
    assert not processes.may_be_alive(None, changed=now)
