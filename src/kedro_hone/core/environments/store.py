"""Environments of the toolchains: built once, found by the digest of their contents, rebuilt when damaged.

::

    environments/<hex>/venv/         the virtual environment
    environments/<hex>/record.json   written last: without it the environment does not exist
    interpreters/<hex>.json          the result of checking an interpreter that the recipe names
    locks/<hex>.lock                 locked while one is built, checked or removed
    logs/<toolchain>-<hex>/          the output of the installer, or of the check
"""

from __future__ import annotations

import os
import platform
import sys
import sysconfig
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path

import platformdirs
from pydantic import ValidationError

from hone_runtime.contract.toolchain import Toolchain
from hone_runtime.text import open_logger
from hone_runtime.values.base import Json
from hone_runtime.values.digest import digest_file, digest_json
from hone_runtime.values.outcome import Failed, FailureClass
from kedro_hone.core.environments.environment import Environment
from kedro_hone.core.environments.installer import find_wheels, install
from kedro_hone.core.environments.interpreters import check_interpreter, find_checked, locate_record
from kedro_hone.core.environments.requirements import explain_unsatisfied, find_closure, list_versions, read_lines
from kedro_hone.core.locks import hold_lock
from kedro_hone.core.store.disk import dump_json, explain_disk_errors, remove_tree, write_file

_LOG = open_logger(__name__)

_RECORD = "record.json"


def _environment_key(toolchain: Toolchain) -> str:
    """Return the key of a toolchain's environment: a digest of its locks without comments and blank lines."""
    return _derive_key(*map(read_lines, (toolchain.lock, *toolchain.sources, *toolchain.builds)))


def find_home() -> Path:
    """Return the default root of environments and locks: ``$HONE_HOME``, or ``kedro-hone`` in the user's cache folder.

    On Linux the user's cache folder is ``$XDG_CACHE_HOME``, or ``~/.cache``.
    """
    return Path(os.environ.get("HONE_HOME") or platformdirs.user_cache_path("kedro-hone", appauthor=False))


class EnvironmentStore:
    """The environments below one folder, ``find_home`` by default; nothing is written before one is built.

    ``named`` are interpreters, by the toolchain's name, to be used instead of any that would be found or built.
    ``wheels`` is a folder from which everything is installed without an index; by default ``$HONE_WHEELS``.
    """

    def __init__(
        self, root: Path | None = None, *, named: Mapping[str, Path] | None = None, wheels: Path | None = None
    ) -> None:
        self.root = (root or find_home()).absolute()
        self._environments = self.root / "environments"
        self._named, self._wheels = dict(named or {}), wheels or find_wheels()

    def ensure(
        self, toolchain: Toolchain, *, build: bool = True, stopped: Callable[[], bool] | None = None
    ) -> Environment | Failed:
        """Return this interpreter if it satisfies a toolchain's requirements, else the toolchain's own environment.

        The toolchain's environment is built if it does not exist; if building is not allowed, that is a failure. An
        interpreter that is named for the toolchain is checked, and takes precedence over both. Failures are
        ``install``, ``time-out`` and ``disk-full``, and ``killed`` if ``stopped`` became true while it was built.

        Raises:
            HoneError: ``store-full`` or ``store-read-only``.
        """
        if not toolchain.requirements.exists():
            reason = f"{toolchain.requirements} does not exist"
            return Failed(by=toolchain.name, failure=FailureClass.INSTALL, reason=reason)
        if (python := self._named.get(toolchain.name)) is not None:
            return self._check(toolchain, python)
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
        return self._find_own(toolchain, unsatisfied, build=build, stopped=stopped)

    def _find_own(
        self, toolchain: Toolchain, unsatisfied: str, *, build: bool, stopped: Callable[[], bool] | None
    ) -> Environment | Failed:
        """Return the toolchain's own environment, built if allowed; ``why`` is the reason against this interpreter."""
        fail = partial(Failed, by=toolchain.name, failure=FailureClass.INSTALL)
        if not toolchain.lockable:
            line = f"hone: {{environments: {{{toolchain.name}: {{python: /path/to/python}}}}}}"
            why = f"here {unsatisfied}, and package indexes lack what {toolchain.name} needs"
            return fail(reason=f"{why}; name an interpreter that has it in the recipe: `{line}`")
        if not toolchain.lock.exists():
            return fail(reason=f"{toolchain.lock} does not exist, and here {unsatisfied}")
        key = _environment_key(toolchain)
        if found := self._find(key, toolchain):
            return found
        if not build:
            command = f"kedro-hone toolchains build {toolchain.name}"
            return fail(reason=f"here {unsatisfied}, and its own environment is not built; run `{command}`")
        with self._lock(key, f"building the environment of {toolchain.name}"):
            return self._find(key, toolchain) or self._build(key, toolchain, stopped)

    def collect(self, toolchains: Iterable[Toolchain], *, days: float = 30.0) -> list[tuple[Environment, int]]:
        """Remove the environments that no toolchain refers to, and those not used for some days.

        An environment used within the last day is retained, since a run may be using it. Incomplete ones are ignored.
        The removed environments are returned with their sizes in bytes.

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
                removed.append((environment, measure_size(folder)))
                with self._lock(folder.name, "removing it"):
                    (folder / _RECORD).unlink(missing_ok=True)  # first: without its record it no longer exists
                    remove_tree(folder)
        return removed

    def locate(self, toolchain: Toolchain) -> Path:
        """Return the folder of a toolchain's own environment, which need not exist; the toolchain must have a lock."""
        return self._environments / _environment_key(toolchain)

    def _check(self, toolchain: Toolchain, python: Path) -> Environment | Failed:
        """Return a named interpreter as an environment, or why it cannot be used, from its record or by starting it."""
        record = locate_record(self.root, toolchain, python)
        if found := find_checked(record, toolchain, python):
            return found
        key = record.stem
        with self._lock(key, f"checking the interpreter of {toolchain.name}"):
            folder = self.root / "logs" / f"{toolchain.name}-{key[:12]}"
            return find_checked(record, toolchain, python) or check_interpreter(
                record, toolchain, python, folder=folder
            )

    @contextmanager
    def _lock(self, key: str, purpose: str) -> Iterator[None]:
        with explain_disk_errors(self.root), hold_lock(self.root / "locks" / f"{key}.lock", purpose=purpose):
            yield

    def _find(self, key: str, toolchain: Toolchain) -> Environment | None:
        """Return a complete environment, otherwise None: it is then built again. Cheap: nothing is started."""
        folder = self._environments / key
        environment = _read_record(folder)
        if environment is None or environment.key != key:
            return None
        python = Path(environment.python)  # a link, which does not exist either if its target is gone
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
        build = install(toolchain, folder / "venv", logs=logs, wheels=self._wheels, stopped=stopped)
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
        write_file(folder / _RECORD, dump_json(environment.model_dump(mode="json", exclude_defaults=True)))
        return environment


def measure_size(folder: Path) -> int:
    """Return the bytes of all files below a folder, which may change meanwhile; 0 if absent."""
    size = 0
    for place, _, files in os.walk(folder):
        for name in files:
            with suppress(FileNotFoundError):
                size += os.lstat(os.path.join(place, name)).st_size  # noqa: PTH118 - tens of thousands of them
    return size


def _derive_key(*installed: Json) -> str:
    """Return a hexadecimal key that covers the platform and Python, too (not its patch version: same wheels)."""
    version = ".".join(map(str, sys.version_info[:2]))
    host = (platform.python_implementation(), version, sysconfig.get_platform(), "-".join(platform.libc_ver()))
    return digest_json([*host, *installed]).removeprefix("sha256:")


def _read_record(folder: Path) -> Environment | None:
    """Return a record; None if it is missing or truncated: then there is no environment."""
    try:
        return Environment.model_validate_json((folder / _RECORD).read_bytes())
    except (FileNotFoundError, NotADirectoryError, ValidationError):
        return None
