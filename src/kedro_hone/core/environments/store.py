"""Environments of the toolchains: built once, found by the digest of their contents, rebuilt when damaged.

::

    environments/<hex>/venv/         the virtual environment
    environments/<hex>/record.json   written last: without it the environment does not exist
    locks/<hex>.lock                 held while it is built or removed
    logs/<toolchain>-<hex>/          the installer's output
"""

from __future__ import annotations

import os
import platform
import sys
import sysconfig
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import platformdirs
from pydantic import ValidationError

from kedro_hone.core.contract.toolchain import Toolchain
from kedro_hone.core.environments.installer import install
from kedro_hone.core.environments.requirements import explain_unsatisfied, find_closure, list_versions, read_lines
from kedro_hone.core.locks import hold_lock
from kedro_hone.core.store.disk import dump_json, explain_disk_errors, remove_tree, write_file
from kedro_hone.core.text import open_logger
from kedro_hone.core.values.base import Json, Value
from kedro_hone.core.values.digest import digest_file, digest_json
from kedro_hone.core.values.outcome import Failed, FailureClass

_LOG = open_logger(__name__)

_RECORD = "record.json"


class Environment(Value):
    """The Python environment of a toolchain's workers.

    Attributes:
        key: Identifies what is installed; part of the keys of the steps.
        own: Whether it is in the store; otherwise it is the interpreter that runs this process.
        lock_digest: ``sha256:…`` of the toolchain's lock; where the interpreter that runs us is used, which no lock
            made, of the versions in it.
        versions: What is installed, by canonical name.
        build: Which of the toolchain's builds is installed, such as ``cpu``; empty where it has none.
    """

    toolchain: str
    key: str
    python: str
    own: bool
    lock_digest: str
    versions: dict[str, str]
    build: str = ""


def _environment_key(toolchain: Toolchain) -> str:
    """Return the key of a toolchain's environment: of its locks, comments and blank lines do not count."""
    return _derive_key(*map(read_lines, (toolchain.lock, *toolchain.sources, *toolchain.builds)))


def find_home() -> Path:
    """Return the default root of environments and locks: ``$HONE_HOME``, or ``kedro-hone`` in the user's cache folder.

    On Linux the user's cache folder is ``$XDG_CACHE_HOME``, or ``~/.cache``.
    """
    return Path(os.environ.get("HONE_HOME") or platformdirs.user_cache_path("kedro-hone", appauthor=False))


class EnvironmentStore:
    """The environments below one folder, ``find_home`` by default; nothing is written before one is built."""

    def __init__(self, root: Path | None = None) -> None:
        self.root = (root or find_home()).absolute()
        self._environments = self.root / "environments"

    def ensure(
        self, toolchain: Toolchain, *, build: bool = True, stopped: Callable[[], bool] | None = None
    ) -> Environment | Failed:
        """Return this interpreter if it satisfies a toolchain's requirements, else the toolchain's own environment.

        That one is built when there is none; where it may not be, that is a failure. Failures are ``install``,
        ``time-out`` and ``disk-full``, and ``killed`` where ``stopped`` came to be true while it was built.

        Raises:
            HoneError: ``store-full`` or ``store-read-only``.
        """
        fail = partial(Failed, by=toolchain.name, failure=FailureClass.INSTALL)
        if not toolchain.requirements.exists():
            return fail(reason=f"{toolchain.requirements} does not exist")
        lines = read_lines(toolchain.requirements)
        versions = find_closure(lines)
        unsatisfied = explain_unsatisfied(lines, versions)
        if unsatisfied is None:
            return Environment(
                toolchain=toolchain.name,
                key=_derive_key(versions),
                python=sys.executable,
                own=False,
                lock_digest=digest_json(versions),
                versions=versions,
            )
        if not toolchain.lock.exists():
            return fail(reason=f"{toolchain.lock} does not exist, and here {unsatisfied}")
        key = _environment_key(toolchain)
        if found := self._find(key, toolchain):
            return found
        if not build:
            command = f"kedro hone toolchains build {toolchain.name}"
            return fail(reason=f"here {unsatisfied}, and its own environment is not built; run `{command}`")
        with self._hold(key, f"building the environment of {toolchain.name}"):
            return self._find(key, toolchain) or self._build(key, toolchain, stopped)

    def collect(self, toolchains: Iterable[Toolchain], *, days: float = 30.0) -> list[tuple[Environment, int]]:
        """Remove the environments that none of all toolchains refers to, and those not used for some days.

        One that was used within the last day is kept: a run may be using it. Half-built ones are not looked at.
        Returned are those that were removed, with the bytes that they took.

        Raises:
            HoneError: ``store-read-only``.
        """
        known = {_environment_key(toolchain) for toolchain in toolchains if toolchain.lock.exists()}
        removed = []
        for folder in sorted(self._environments.glob("*")):
            if (environment := _read_record(folder)) is None:
                continue
            idle_days = (time.time() - (folder / _RECORD).stat().st_mtime) / 86_400
            if idle_days > (max(1.0, days) if environment.key in known else 1.0):
                size = sum(path.lstat().st_size for path in folder.rglob("*") if not path.is_dir())
                removed.append((environment, size))
                with self._hold(folder.name, "removing it"):
                    (folder / _RECORD).unlink(missing_ok=True)  # first: what is half removed does not exist
                    remove_tree(folder)
        return removed

    @contextmanager
    def _hold(self, key: str, purpose: str) -> Iterator[None]:
        with explain_disk_errors(self.root), hold_lock(self.root / "locks" / f"{key}.lock", purpose=purpose):
            yield

    def _find(self, key: str, toolchain: Toolchain) -> Environment | None:
        """Return an environment of which nothing is gone, else it is built again. Cheap: nothing is started."""
        folder = self._environments / key
        environment = _read_record(folder)
        if environment is None or environment.key != key:
            return None
        python = Path(environment.python)  # a link, which does not exist either when what it leads to is gone
        if not python.exists() or not environment.versions.keys() <= list_versions(python).keys():
            return None
        try:
            os.utime(folder / _RECORD)
        except OSError as error:  # a read-only store, as in an image, is not collected either
            _LOG.debug("The use of %s is not noted: %s", folder, error)
        # Toolchains with equal locks share one environment.
        return environment.model_copy(update={"toolchain": toolchain.name})

    def _build(self, key: str, toolchain: Toolchain, stopped: Callable[[], bool] | None = None) -> Environment | Failed:
        folder, logs = self._environments / key, self.root / "logs" / f"{toolchain.name}-{key[:12]}"
        for leftover in (folder, logs):
            remove_tree(leftover)
            leftover.mkdir(parents=True)
        _LOG.info("Building the environment of %s; its log is in %s.", toolchain.name, logs)
        # In place: a virtual environment that is moved afterwards does not work.
        python = folder / "venv" / "bin" / "python"
        build = install(toolchain, folder / "venv", logs=logs, stopped=stopped)
        if isinstance(build, Failed):
            remove_tree(folder)
            return build
        environment = Environment(
            toolchain=toolchain.name,
            key=key,
            python=str(python),
            own=True,
            lock_digest=digest_file(toolchain.lock),
            versions=list_versions(python),
            build=build,
        )
        write_file(folder / _RECORD, dump_json(environment.model_dump(mode="json")))
        return environment


def _derive_key(*installed: Json) -> str:
    """Return a key in hexadecimal over python (not its patch version: the wheels are the same) and the platform too."""
    version = ".".join(map(str, sys.version_info[:2]))
    host = (platform.python_implementation(), version, sysconfig.get_platform(), "-".join(platform.libc_ver()))
    return digest_json([*host, *installed]).removeprefix("sha256:")


def _read_record(folder: Path) -> Environment | None:
    """Return a record; None when it is missing or cut short: then there is no environment."""
    try:
        return Environment.model_validate_json((folder / _RECORD).read_bytes())
    except (FileNotFoundError, NotADirectoryError, ValidationError):
        return None
