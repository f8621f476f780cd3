"""Commands of Kedro's in forked processes, which find their libraries imported already.

A command takes two to six seconds of processor time to import Kedro, MLflow, DVC and pandas, and the tests start
hundreds. So a server imports them once, and each command is a fork of it, with the folder, the variables and the output
that a new process would have; ``chg`` does the same for the tests of Mercurial. The project, its adaptors and all that
is not in ``PRELOADED`` are imported by each command. With ``HONE_COLD=1`` every command is started as a person does it,
as in the nightly tests; those that a test signals or looks into (``Project.start``) always are.
"""

from __future__ import annotations

import atexit
import contextlib
import gc
import importlib
import json
import os
import pkgutil
import runpy
import select
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Mapping
from pathlib import Path
from typing import NoReturn

TESTS = Path(__file__).parent

PRELOADED = (
    "dulwich.ignore",
    "dulwich.worktree",
    "dvc.api",
    "dvc.cachemgr",
    "dvc.data_cloud",
    "dvc.repo.artifacts",
    "dvc.repo.datasets",
    "dvc.repo.index",
    "dvc.repo.open_repo",
    "dvc.repo.plots",
    "dvc.repo.stage",
    "dvc.utils.strictyaml",
    "dvc_data.hashfile.db.local",
    "email.policy",
    "fsspec.implementations.memory",
    "kedro.framework.cli.cli",
    "kedro.framework.session",
    "kedro.framework.session.store",
    "kedro.framework.startup",
    "kedro_hone.adaptors.registries.local.registry",
    "kedro_hone.adaptors.registries.mlflow.registry",
    "kedro_hone.cli",
    "hone_runtime.contract.registries",
    "kedro_hone.datasets.dvc",
    "kedro_hone.datasets.revision",
    "kedro_hone.datasets.defaults",
    "kedro_hone.datasets.ordinary",
    "kedro_hone.pipeline_registry",
    "kedro_hone.pipelines.build",
    "kedro_hone.pipelines.compare",
    "kedro_hone.pipelines.demo",
    "kedro_hone.pipelines.publish",
    "kedro_hone.pipelines.pull",
    "kedro_hone.report.console",
    "kedro_hone.report.files",
    "kedro_hone.runner",
    "kedro_hone.search.preflight",
    "kedro_hone.settings",
    "kedro_hone.sources.huggingface.tasks",
    "kedro_telemetry.plugin",
    "kedro_viz.integrations.kedro.hooks",
    "kedro_viz.integrations.kedro.run_hooks",
    "kedro_viz.launchers.cli.main",
    "kedro_viz.utils",
    "mlflow.models.utils",
    "pandas",
    "rich._emoji_codes",
    "ruamel.yaml",
    "scipy.special",
)
"""What nearly every command imports, and what reads no variable at import that a project of the tests sets."""

NOT_PRELOADED = ("huggingface_hub", "pygit2", "shop", "toolchains")
"""What must not be imported here: it reads addresses and folders from variables at import, or is a project's own."""

FIXED = {
    "PYTHONPATH": f"{TESTS.parent / 'src'}:{TESTS}",
    "KEDRO_LOGGING_CONFIG": str(TESTS.parent / "conf" / "logging.yml"),
    "MLFLOW_DISABLE_TELEMETRY": "true",
    "DO_NOT_TRACK": "1",
    "DVC_NO_ANALYTICS": "1",
    "COLUMNS": "200",
}
"""The variables that all commands of the tests share."""

READ_AT_START = ("COLUMNS", "HOME", "KEDRO_", "LANG", "LC_", "LD_", "MALLOC_", "OMP_", "PYTHON", "TZ", "XDG_")
"""The beginnings of the names of variables that Python or a library reads before a command is run."""

LARGEST_REQUEST = 1 << 20
_STARTING = threading.Lock()
_servers: list[CommandServer] = []


class CommandServer:
    """A server of this process; ``call`` may be called from several threads.

    Attributes:
        variables: Those that its imports have seen.
    """

    def __init__(self) -> None:
        # PyTest sets one of its own while other threads read them. A project's folder would count as at work in it.
        inherited = {name: text for name, text in os.environ.copy().items() if not name.startswith(("PYTEST", "HONE_"))}
        self.variables = inherited | FIXED
        self._socket, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, __file__, str(theirs.fileno())],
                # Threads of Arrow's allocator and of numpy would be missing in each fork.
                env=self.variables | {"JE_ARROW_MALLOC_CONF": "background_thread:false", "OPENBLAS_NUM_THREADS": "1"},
                pass_fds=[theirs.fileno()],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
            )

    def call(
        self, module: str, *arguments: str, folder: Path, variables: Mapping[str, str], seconds: float
    ) -> tuple[int, str]:
        """Run ``python -m module arguments`` to its end; return its exit code as subprocess does, and its output.

        Raises:
            TimeoutError: It, or what it started and what has its output, did not end in time; it was killed.
            ChildProcessError: The server has ended.
        """
        request = {"module": module, "arguments": arguments, "folder": str(folder), "variables": dict(variables)}
        output, output_end = os.pipe()
        status, status_end = os.pipe()
        with os.fdopen(output, "rb"), os.fdopen(status, "rb"):
            try:
                socket.send_fds(self._socket, [json.dumps(request).encode()], [output_end, status_end])
            finally:
                os.close(output_end)
                os.close(status_end)
            read, complete = _read_all([output, status], seconds)
        pid, _, code = read[status].decode().partition("\n")
        if not complete:
            with contextlib.suppress(ProcessLookupError, ValueError):
                os.kill(int(pid), signal.SIGKILL)
            raise TimeoutError(f"{module} {' '.join(arguments)} did not end in {seconds:.0f} s")
        if not code:
            raise ChildProcessError(f"the command server has ended with {self.poll()}; pytest has its error output")
        return int(code), read[output].decode().replace("\r\n", "\n")

    def close(self) -> None:
        """End the server; commands that run go on."""
        self._socket.close()
        self._process.wait()

    def poll(self) -> int | None:
        """Return the exit code of the server, or None as long as it serves."""
        return self._process.poll()


def _read_all(descriptors: list[int], seconds: float) -> tuple[dict[int, bytearray], bool]:
    """Return what comes from pipes, and whether all of them were closed in time."""
    read, poller, deadline = {one: bytearray() for one in descriptors}, select.poll(), time.monotonic() + seconds
    for descriptor in descriptors:
        poller.register(descriptor, select.POLLIN)
    left = len(descriptors)
    while left:
        ready = poller.poll(max(0.0, deadline - time.monotonic()) * 1000)
        if not ready:
            return read, False
        for descriptor, _ in ready:
            chunk = os.read(descriptor, 1 << 16)
            read[descriptor] += chunk
            if not chunk:
                poller.unregister(descriptor)
                left -= 1
    return read, True


def find_server() -> CommandServer:
    """Return the server of this process, which ends with it; one that has ended is replaced."""
    with _STARTING:
        if not _servers or _servers[-1].poll() is not None:
            _servers.append(CommandServer())
            atexit.register(_servers[-1].close)
        return _servers[-1]


def can_be_forked(variables: Mapping[str, str]) -> bool:
    """Tell whether a command with these variables would import the same in the same way."""
    if "HONE_COLD" in os.environ:
        return False
    mine = find_server().variables
    names = {name for name in {*mine, *variables} if name.startswith(READ_AT_START)}
    return all(mine.get(name) == variables.get(name) for name in names)


def preload() -> None:
    """Import what commands import, and compile the report's templates, which each would compile again."""
    from hone_runtime.contract.catalogue import list_builtin
    from kedro_hone.report.rendering import TEMPLATES

    modules = [*PRELOADED, *list_builtin().values()]
    for package in ("kedro_hone.search.gates", "kedro_hone.sources.formats"):
        places = importlib.import_module(package).__path__
        modules += [f"{package}.{found.name}" for found in pkgutil.iter_modules(places)]
    for module in modules:
        importlib.import_module(module)
    for name in TEMPLATES.list_templates(extensions=["j2"]):
        TEMPLATES.get_template(name)


def serve(requests: socket.socket) -> None:
    """Fork for each request; return in the command's process, which then is as if Python had just started."""
    preload()
    assert not (wrong := set(NOT_PRELOADED) & set(sys.modules)), wrong
    assert len([*Path("/proc/self/task").iterdir()]) == 1, "other threads would be missing in each fork"
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
        os.write(status, f"{os.waitstatus_to_exitcode(ended)}".encode())
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
