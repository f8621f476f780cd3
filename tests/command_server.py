"""Commands of Kedro's in forked processes, which find their libraries imported already.

A command takes two to six seconds of processor time to import Kedro, MLflow, DVC and pandas, and the tests start
hundreds. So a server imports them once, and each command is a fork of it, with the folder, the variables and the output
that a new process would have; ``chg`` does the same for the tests of Mercurial. The project, its adaptors and all that
is not in ``PRELOADED`` are imported by each command. With ``HONE_COLD=1`` every command is started as a person does it,
as in the nightly tests; those that a test signals or looks into (``Project.start``) always are.
"""

from __future__ import annotations

import contextlib
import functools
import gc
import importlib
import json
import os
import runpy
import select
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import NoReturn

TESTS = Path(__file__).parent

PRELOADED = (
    "dvc.api",
    "kedro.framework.cli.cli",
    "kedro.framework.session",
    "kedro_hone.cli",
    "kedro_hone.datasets.dvc",
    "kedro_hone.pipeline_registry",
    "kedro_hone.report.files",
    "kedro_hone.runner",
    "kedro_hone.settings",
    "kedro_telemetry.plugin",
    "kedro_viz.utils",
    "mlflow.models.utils",
    "pandas",
    "scipy.special",
)
"""What nearly every command imports, and what reads no variable at import that a project of the tests sets."""

NOT_PRELOADED = ("huggingface_hub", "pygit2", "shop", "toolchains")
"""What must not be imported here: it keeps addresses and homes of its variables, or is a project's own."""

FIXED = {
    "PYTHONPATH": f"{TESTS.parent / 'src'}:{TESTS}",
    "KEDRO_LOGGING_CONFIG": str(TESTS.parent / "conf" / "logging.yml"),
    "MLFLOW_DISABLE_TELEMETRY": "true",
    "DO_NOT_TRACK": "1",
    "DVC_NO_ANALYTICS": "1",
    "COLUMNS": "200",
}
"""The variables that all commands of the tests share."""

READ_AT_START = ("COLUMNS", "KEDRO_", "LD_", "OMP_", "PYTHON")
"""The beginnings of the names of variables that Python or a library reads before a command is run."""

LARGEST_REQUEST = 1 << 20


class CommandServer:
    """The server of this process; ``call`` may be called from several threads."""

    def __init__(self) -> None:
        self._socket, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, __file__, str(theirs.fileno())],
                env={**os.environ, **FIXED},
                pass_fds=[theirs.fileno()],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
            )

    def call(
        self, module: str, *arguments: str, folder: Path, variables: Mapping[str, str], seconds: float
    ) -> tuple[int, str]:
        """Run ``python -m module arguments`` to its end; return its exit code as subprocess does, and its output.

        Raises:
            TimeoutError: It did not end in time; it was killed.
        """
        request = {"module": module, "arguments": arguments, "folder": str(folder), "variables": dict(variables)}
        output, output_end = os.pipe()
        status, status_end = os.pipe()
        try:
            socket.send_fds(self._socket, [json.dumps(request).encode()], [output_end, status_end])
        finally:
            os.close(output_end)
            os.close(status_end)
        with os.fdopen(output, "rb", buffering=0) as said, os.fdopen(status, encoding="ascii") as told:
            if not (pid := told.readline()):
                raise ChildProcessError("the command server has ended; its error is above")
            chunks, deadline = [], time.monotonic() + seconds
            poller = select.poll()
            poller.register(said, select.POLLIN)
            while True:
                if not poller.poll(max(0.0, deadline - time.monotonic()) * 1000):
                    os.kill(int(pid), signal.SIGKILL)
                    raise TimeoutError(f"{module} {' '.join(arguments)} did not end in {seconds:.0f} s")
                if not (chunk := said.read(1 << 16)):
                    break
                chunks.append(chunk)
            return int(told.readline()), b"".join(chunks).decode()


@functools.cache
def start_server() -> CommandServer:
    """Return the server of this process, which ends with it."""
    return CommandServer()


def can_be_forked(variables: Mapping[str, str]) -> bool:
    """Tell whether a command with these variables would import the same in the same way."""
    if "HONE_COLD" in os.environ:
        return False
    mine = {**os.environ, **FIXED}
    names = {name for name in {*mine, *variables} if name.startswith(READ_AT_START)}
    return all(mine.get(name) == variables.get(name) for name in names)


def serve(requests: socket.socket) -> None:
    """Fork for each request; return in the command's process, which then is as if Python had just started."""
    for module in PRELOADED:
        importlib.import_module(module)
    assert not (wrong := set(NOT_PRELOADED) & set(sys.modules)), wrong
    gc.collect()
    gc.freeze()
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # nobody waits for those that watch
    while True:
        data, descriptors, _, _ = socket.recv_fds(requests, LARGEST_REQUEST, 2)
        if not data:
            os._exit(0)
        if os.fork() == 0:
            requests.close()
            watch(json.loads(data), *descriptors)
            return
        for descriptor in descriptors:
            os.close(descriptor)


def watch(request: dict, output: int, status: int) -> None:
    """Fork once more: return in the command's process, and tell how it ended in the one that watches it."""
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    pid = os.fork()
    if pid:
        os.close(output)
        os.write(status, f"{pid}\n".encode())
        _, ended = os.waitpid(pid, 0)
        os.write(status, f"{os.waitstatus_to_exitcode(ended)}\n".encode())
        os._exit(0)
    os.close(status)
    os.dup2(output, 1)
    os.dup2(output, 2)
    os.close(output)
    os.chdir(request["folder"])
    os.environ.clear()
    os.environ.update(request["variables"])
    tempfile.tempdir = None  # as TMPDIR says
    sys.path[0] = request["folder"]
    sys.argv = [request["module"], *request["arguments"]]


def main() -> NoReturn:
    """Serve, and be a command."""
    with contextlib.closing(socket.socket(fileno=int(sys.argv[1]))) as requests:
        serve(requests)
    runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)
    sys.exit()


if __name__ == "__main__":
    main()
