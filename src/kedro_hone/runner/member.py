"""The code in a Dask worker: it reports the facts of its machine, and runs nodes.

A worker is another process, maybe on another machine. It gets the project's root and package with every task, loads
them once, and reports the digest of the loaded code: a worker started before a change of the code must not take part. A
node's inputs and results are bytes until the project is loaded, since they refer to classes of the project.
"""

from __future__ import annotations

import hashlib
import importlib
import logging
import pickle
import platform
import sys
import threading
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Any, Final

from kedro.framework import project
from kedro.framework.startup import bootstrap_project
from kedro.utils import is_kedro_project

from hone_runtime.contract.hardware import read_host
from hone_runtime.contract.host import Host
from hone_runtime.text import PACKAGES, open_logger
from kedro_hone.core.environments.store import find_home
from kedro_hone.core.store.artifacts import Store

_BOOT: Final = Path("/proc/sys/kernel/random/boot_id")
_CODE: Final = frozenset({".py", ".yml", ".lock"})
ANSWERS: Final = "cluster"
"""The subfolder of the run's folder in which workers prove that they share it."""


@dataclass(frozen=True, kw_only=True)
class Setup:
    """A run's description for a worker: the project's root and package, the run's folder, and the mark in it."""

    project: Path
    package: str
    folder: Path
    mark: str

    @property
    def topic(self) -> str:
        """The topic of Dask for the log lines of the run's nodes."""
        return f"kedro-hone-{self.mark}"


@dataclass(frozen=True, kw_only=True)
class Facts:
    """A worker's description of itself.

    Attributes:
        host: Its machine, as described for adaptors.
        machine: Identifies the machine, not only its kind like the host's fingerprint.
        code: The digest of the code that the worker runs, of kedro-hone and of the project's package.
        shared: Whether it can read and write the run's folder.
    """

    host: Host
    machine: str
    code: str
    shared: bool


@dataclass(frozen=True, kw_only=True)
class HostRequirement:
    """Where a node may run: on hosts with a fingerprint, with code of a digest, and possibly on one machine only."""

    fingerprint: str
    code: str
    machine: str | None = None


class MisplacedError(Exception):
    """A node was sent to a worker where it must not run: the worker joined after the node was submitted."""


def introduce(setup: Setup) -> Facts:
    """Return the facts of this worker, and write a response to the run's folder."""
    facts = Facts(host=read_host(), machine=identify_machine(), code="", shared=False)
    try:
        if not (setup.folder / ANSWERS / setup.mark).is_file():
            return facts
        (setup.folder / ANSWERS / f"{setup.mark}-{uuid.uuid4().hex}").touch()
    except OSError:
        return facts
    return replace(facts, code=load_project(setup.project, setup.package), shared=True)


def identify_machine() -> str:
    """Return a unique name of this machine: its host's name, and the kernel's boot id."""
    with suppress(OSError):
        return f"{platform.node()}-{_BOOT.read_text().strip()}"
    return platform.node()


@lru_cache
def load_project(root: Path, package: str) -> str:
    """Configure Kedro for a project, once per process, and return the digest of the code at that time.

    Raises:
        RuntimeError: The process has loaded another project, and its adaptors and hooks cannot be unloaded.
    """
    if project.PACKAGE_NAME not in {None, package}:
        raise RuntimeError(f"it has loaded the project {project.PACKAGE_NAME}: start it again for this one")
    if is_kedro_project(root):
        bootstrap_project(root)
    else:
        project.configure_project(package)
    importlib.import_module(f"{package}.settings")  # may register adaptors
    return digest_code(package)


def digest_code(package: str) -> str:
    """Return a digest of the code of kedro-hone and of a package, in its current state: Python, YAML and locks."""
    digest = hashlib.sha256()
    for name in dict.fromkeys((*PACKAGES, package)):
        root = Path(str(importlib.import_module(name).__file__)).parent
        for path in sorted(_list_code(root)):
            digest.update(f"{name}/{path.relative_to(root)}\0".encode())
            digest.update(hashlib.sha256(path.read_bytes()).digest())
    return f"{sys.version_info.major}.{sys.version_info.minor}-{digest.hexdigest()}"


def _list_code(folder: Path) -> Iterator[Path]:
    for path in folder.iterdir():
        if path.is_dir():  # links too: in development, nodes and adaptors are linked into the package
            yield from _list_code(path)
        elif path.suffix in _CODE:
            yield path


def run_node(task: bytes, setup: Setup, place: HostRequirement) -> bytes:
    """Run a node's function on its inputs, and return its results.

    Raises:
        MisplacedError: It must not run here.
        Exception: As raised by the node.
    """
    machine = None if place.machine is None else identify_machine()
    code = load_project(setup.project, setup.package)
    if HostRequirement(fingerprint=read_host().fingerprint, code=code, machine=machine) != place:
        raise MisplacedError(platform.node())
    call: tuple[Callable[..., Any], Sequence[Any], Mapping[str, Any]] = pickle.loads(task)  # noqa: S301 - of our own run
    function, arguments, named = call
    with _forward_logs(setup):
        return pickle.dumps(function(*map(_move, arguments), **{name: _move(value) for name, value in named.items()}))


def _move(value: Any) -> Any:
    """Return an input of a node; a shared store gets its cache on this machine."""
    return value.move_cache(find_home() / "stores") if isinstance(value, Store) else value


@contextmanager
def _forward_logs(setup: Setup) -> Iterator[None]:
    """Forward the log lines of this thread to the process of the run."""
    with ExitStack() as stack:
        handler = _Forward(setup.topic)
        for name in dict.fromkeys((*PACKAGES, setup.package)):
            logger = open_logger(name)
            logger.setLevel(min(logger.getEffectiveLevel(), logging.INFO))
            logger.addHandler(handler)
            stack.callback(logger.removeHandler, handler)
        yield


class _Forward(logging.Handler):
    """Sends the lines of one thread as an event of the Dask worker."""

    def __init__(self, topic: str) -> None:
        from distributed import get_worker  # noqa: PLC0415 - an extra, which only the processes of a cluster need

        super().__init__(logging.INFO)
        self._topic, self._worker, self._thread = topic, get_worker(), threading.get_ident()

    def emit(self, record: logging.LogRecord) -> None:
        """Send a line, but none of other threads, which run other nodes."""
        if record.thread == self._thread:
            line = {"name": record.name, "level": record.levelno, "text": record.getMessage()}
            self._worker.log_event(self._topic, line)
