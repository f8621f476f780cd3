"""Interpreters that the user names for a toolchain instead of its locked environment: checked once, and recorded.

``interpreters/<hex>.json`` below the store's root is the record of one interpreter for one toolchain. It is valid until
the folders that the interpreter imports from, the toolchain's worker or its requirements change.
"""

from __future__ import annotations

import os
from functools import partial
from pathlib import Path
from typing import Final

from pydantic import ValidationError

from hone_runtime.contract.job import Job, StepResult
from hone_runtime.contract.toolchain import Limits, Toolchain
from hone_runtime.values.base import Json, Value
from hone_runtime.values.digest import digest_json
from hone_runtime.values.outcome import Failed, FailureClass
from kedro_hone.core.environments.environment import Environment
from kedro_hone.core.environments.requirements import explain_unsatisfied, read_lines, sort_versions
from kedro_hone.core.store.disk import dump_json, write_file
from kedro_hone.core.workers.host.run import WORKER_MAIN, call_worker, digest_worker

_EXAMINER: Final = WORKER_MAIN.with_name("interpreter.py")
_LIMITS: Final = Limits(seconds=300.0)
"""Limits of a check, which starts the interpreter and imports the toolchain; a cold disk makes that slow."""


class _Record(Value):
    """The result of a check. A failure is valid only in the process that found it, so that another run tries again."""

    state: str
    process: int
    places: tuple[str, ...] = ()
    environment: Environment | None = None
    failed: Failed | None = None


def locate_record(root: Path, toolchain: Toolchain, python: Path) -> Path:
    """Return the file of the record of an interpreter for a toolchain."""
    name = digest_json([toolchain.name, str(toolchain.folder), str(python)]).removeprefix("sha256:")
    return root / "interpreters" / f"{name}.json"


def find_checked(record: Path, toolchain: Toolchain, python: Path) -> Environment | Failed | None:
    """Return the result of an earlier check if nothing has changed since, or None; nothing is started."""
    try:
        known = _Record.model_validate_json(record.read_bytes())
    except (FileNotFoundError, NotADirectoryError, ValidationError):
        return None
    if known.state != _digest_state(toolchain, python, known.places):
        return None
    return known.environment or (known.failed if known.process == os.getpid() else None)


def check_interpreter(record: Path, toolchain: Toolchain, python: Path, *, folder: Path) -> Environment | Failed:
    """Start an interpreter that the user names, and return it as a toolchain's environment, or why it cannot be used.

    It must satisfy the toolchain's ``requirements.in`` and be able to import the toolchain's worker. ``folder`` is that
    of the worker that checks it, with its log. Failures are of the class ``install``.

    Raises:
        OSError: The record cannot be written.
    """
    found, places = _examine(toolchain, python, folder)
    state = _digest_state(toolchain, python, places)
    kept = {"failed": found} if isinstance(found, Failed) else {"environment": found}
    written = _Record(state=state, process=os.getpid(), places=places, **kept)
    record.parent.mkdir(parents=True, exist_ok=True)
    write_file(record, dump_json(written.model_dump(mode="json")))
    return found


def _examine(toolchain: Toolchain, python: Path, folder: Path) -> tuple[Environment | Failed, tuple[str, ...]]:
    """Return the environment, or why it cannot be used, and the folders that the interpreter imports from."""
    fail = partial(Failed, by=toolchain.name, failure=FailureClass.INSTALL)
    if not os.access(python, os.X_OK) or python.is_dir():
        return fail(reason=f"{python}, named for {toolchain.name}, cannot be started"), ()
    job = Job(
        function="examine",
        worker=str(_EXAMINER),
        adaptor=toolchain.name,
        reads=(str(toolchain.worker.parent),),
        toolchain=str(toolchain.worker),
    )
    result = call_worker(job, python=python, toolchain=toolchain, folder=folder, limits=_LIMITS)
    if not isinstance(result, StepResult):
        log = result.log if isinstance(result, Failed) else None
        return fail(reason=f"{python}, named for {toolchain.name}, cannot run a worker: {result.reason}", log=log), ()
    try:
        return _judge(toolchain, python, result.notes, log=str(folder / "log")), tuple(map(str, result.notes["places"]))
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        return fail(
            reason=f"{python}, named for {toolchain.name}, printed nothing that can be read: {error!r:.200}"
        ), ()


def _judge(toolchain: Toolchain, python: Path, found: dict[str, Json], *, log: str) -> Environment | Failed:
    versions = sort_versions(found["versions"].items())
    lines = read_lines(toolchain.requirements)
    problem = explain_unsatisfied(lines, versions, markers=found["markers"])
    if problem is None and found["fault"] is not None:
        problem = f"{toolchain.name} cannot be imported: {found['fault']}"
    if problem is not None:
        reason = f"{python}, named for {toolchain.name}, does not meet its requirements: {problem}"
        return Failed(by=toolchain.name, failure=FailureClass.INSTALL, reason=reason, log=log)
    full = found["markers"]["python_full_version"]
    identity = [str(python.resolve()), found["prefix"], found["markers"]["implementation_name"], full, versions]
    return Environment(
        toolchain=toolchain.name,
        key=digest_json(["interpreter", *identity]).removeprefix("sha256:"),
        python=str(python),
        own=False,
        named=True,
        lock_digest=digest_json(versions),
        versions={"python": full, **versions},
    )


def _digest_state(toolchain: Toolchain, python: Path, places: tuple[str, ...]) -> str:
    """Return a digest of everything that decides the result of a check: cheap, without starting the interpreter."""
    usual = map(str, sorted(python.parents[1].glob("lib/python3*/site-packages")))  # if it crashes at its start
    seen = [(path, os.path.realpath(path), _read_times(path)) for path in (str(python), *usual, *places)]
    return digest_json([seen, read_lines(toolchain.requirements), digest_worker(toolchain.worker)])


def _read_times(path: str) -> list[int]:
    """Return when a file or folder was changed, and its size; adding or removing a package changes its folder."""
    try:
        found = Path(path).stat()
    except OSError:
        return []
    return [found.st_mtime_ns, found.st_size]
