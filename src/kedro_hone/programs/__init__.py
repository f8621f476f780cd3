"""Programs: how data become a model's inputs, how its outputs become predictions, and how good those are.

Each folder here is one program, but ``shared/`` (what several of them use) and ``worker/`` (what runs them). Programs
are handed to workers by path; a run never imports one in its own process.
"""

from __future__ import annotations

import difflib
import shutil
from pathlib import Path
from typing import Any, Final

from kedro_hone.core.errors import HoneError
from kedro_hone.core.values.base import Value
from kedro_hone.core.values.digest import digest_code, digest_file, digest_json
from kedro_hone.core.workers.host.code_files import find_code_file
from kedro_hone.core.workers.host.run import digest_worker
from kedro_hone.core.workers.inside import loading

LIBRARY: Final = Path(__file__).parent
"""The folder of the built-in programs, which workers import as ``hone_programs``."""

WORKER: Final = LIBRARY / "worker" / "__init__.py"
"""The worker file that runs programs: its functions are ``check``, ``read`` and ``evaluate``."""

_INIT, _SHARED, _WORKER, _KEPT = "__init__.py", "shared", "worker", "program"


class ProgramFile(Value):
    """Code that workers run.

    Attributes:
        path: The file, or the ``__init__.py`` of the package, absolute.
        digest: ``sha256:…`` of all that runs: of a program its file or package, and what it can import of ours.
    """

    path: str
    digest: str


def list_programs() -> list[str]:
    """Return the names of the built-in programs, sorted: each package next to this file is one."""
    folders = {path.parent.name for path in LIBRARY.glob(f"*/{_INIT}")} - {_SHARED, _WORKER}
    return sorted(name.replace("_", "-") for name in folders)


def find_program(name: str, *, project: Path) -> ProgramFile:
    """Find a program without importing it.

    It is a built-in one, a module or package by its import name, or a file or package by its path from the project's
    root.

    Raises:
        HoneError: ``program-unknown``.
    """
    known, built_in = name.replace("_", "-"), list_programs()
    if known in built_in:
        folder = known.replace("-", "_")
        file = LIBRARY / folder / _INIT
        return ProgramFile(path=str(file), digest=_digest_program(file))
    path = _find_file(name, project)
    if path is None:
        near = difflib.get_close_matches(known, built_in, 1)
        others = f"Built in are {', '.join(built_in)}; or name a .py file or a package."
        raise HoneError(
            "program-unknown",
            f"There is no program {name!r}.",
            why="It is not built in, and no such module or file was found from the project's root.",
            hint=f"Did you mean {near[0]!r}?" if near else others,
        )
    return ProgramFile(path=str(path), digest=_digest_program(path))


def keep_program(program: ProgramFile, folder: Path) -> str:
    """Copy the code of a program into a folder, unless it is built in, so that it is the same wherever it is run.

    Args:
        program: The program.
        folder: What its name counts from afterwards.

    Returns:
        The name of its file, for ``locate_program``: in the folder, or in the library.
    """
    path = Path(program.path)
    if path.is_relative_to(LIBRARY):
        return path.relative_to(LIBRARY).as_posix()
    kept = folder / _KEPT
    kept.mkdir()
    if path.name != _INIT:
        return Path(shutil.copyfile(path, kept / path.name)).relative_to(folder).as_posix()
    shutil.copytree(path.parent, kept / path.parent.name, ignore=shutil.ignore_patterns("__pycache__"))
    return f"{_KEPT}/{path.parent.name}/{_INIT}"


def locate_program(name: str, folder: Path, *, digest: str) -> Path:
    """Return the file of a program that was kept.

    Args:
        name: From ``keep_program``.
        folder: The folder that it was kept in.
        digest: The program's digest, when it was kept.

    Raises:
        HoneError: ``program-changed``: the code that would run here is another one.
    """
    path = folder / name if (folder / name).is_file() else LIBRARY / name
    if not path.is_file() or _digest_program(path) != digest:
        raise HoneError(
            "program-changed",
            f"The program {name} is not the one that prepared the samples.",
            why="Another version of kedro-hone is installed here than where they were prepared.",
            hint="Install the same version everywhere, or prepare them again: `kedro run`.",
        )
    return path


def _digest_program(path: Path) -> str:
    """Return the digest of all that runs: of a program its file or package, and what it can import of ours."""
    if path.is_relative_to(LIBRARY):
        return digest_code(LIBRARY, (path.parent.name, _SHARED))
    own = digest_code(path.parent.parent, (path.parent.name,)) if path.name == _INIT else digest_file(path)
    library = digest_code(LIBRARY, (_SHARED, *(name.replace("-", "_") for name in list_programs())))
    return digest_json([own, library])


def load_program(name: str, *, project: Path | str = ".") -> Any:
    """Import a program in this process, as workers do in theirs: for the tests of its author.

    Raises:
        HoneError: ``program-unknown``.
    """
    return loading.load_program(find_program(name, project=Path(project)).path, str(LIBRARY))


def find_metric(name: str | None, *, project: Path) -> ProgramFile | None:
    """Find the file of the user's own metric without importing it, for the keys of what it measured.

    Returns:
        The file that holds it; None when the metric is the program's own or one of the table.

    Raises:
        HoneError: ``metric-unknown`` when the file or module does not exist.
    """
    if name is None or ":" not in name:
        return None
    path = find_code_file(name.rpartition(":")[0], project=project)
    if path is None:
        raise HoneError(
            "metric-unknown",
            f"The metric {name!r} does not exist.",
            why="No such module or file was found from the project's root.",
            hint="Write package.module:function, or path/to/file.py:function from the project's root.",
        )
    return ProgramFile(path=str(path), digest=digest_file(path))


def digest_programs() -> str:
    """Return ``sha256:…`` of the code that reads splits and scores candidates, for the keys of what it made."""
    return digest_worker(LIBRARY / _WORKER / _INIT)


def _find_file(name: str, project: Path) -> Path | None:
    if "/" in name and not name.endswith(".py"):
        path = (project / name / _INIT).resolve()
        return path if path.is_file() else None
    return find_code_file(name, project=project)
