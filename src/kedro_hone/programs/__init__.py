"""Programs: convert data to a model's inputs and its outputs to predictions, and score these.

Each folder here is one program, except ``shared/`` (code for several of them) and ``worker/`` (code that runs them).
Programs are passed to workers of any toolchain by path, so they import only numpy. ``prepare`` and the additional
metrics run in the host's environment: the first may import transformers and Pillow, the others the packages in their
``NEEDS``. A run never imports a program in its own process.
"""

from __future__ import annotations

import ast
import shutil
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from hone_runtime.contract.job import Job, JobInput, StepResult
from hone_runtime.contract.toolchain import Limits
from hone_runtime.errors import HoneError
from hone_runtime.text import suggest
from hone_runtime.values.artifact import Artifact
from hone_runtime.values.base import Json, Value
from hone_runtime.values.digest import digest_code, digest_file, digest_json
from hone_runtime.values.outcome import Failed
from hone_runtime.worker import imports
from kedro_hone.core.store.artifacts import Store
from kedro_hone.core.store.runs import RunFolder
from kedro_hone.core.workers.host.code_files import find_code_file
from kedro_hone.core.workers.host.run import call_worker, digest_worker

LIBRARY: Final = Path(__file__).parent
"""The folder of the built-in programs, which workers import as ``hone_programs``."""

_INIT, _SHARED, _WORKER, _KEPT = "__init__.py", "shared", "worker", "program"


_OPTIONS: Final = " Check the program's options `output` and `classes`."
"""In a hint of the worker, the sentence about options that not every program has."""


class ProgramFile(Value):
    """A program: its file or its package's ``__init__.py``, absolute, and the digest of it and all it can import."""

    path: str
    digest: str


def list_programs() -> list[str]:
    """Return the names of the built-in programs, sorted: each package next to this file is one."""
    folders = {path.parent.name for path in LIBRARY.glob(f"*/{_INIT}")} - {_SHARED, _WORKER}
    return sorted(name.replace("_", "-") for name in folders)


def find_program(name: str, *, project: Path) -> ProgramFile:
    """Find a program without importing it: a built-in one, an import name, or a path relative to the project's root.

    Raises:
        HoneError: ``program-unknown``.
    """
    known, built_in = name.replace("_", "-"), list_programs()
    if known in built_in:
        path: Path | None = LIBRARY / known.replace("-", "_") / _INIT
    elif "/" in name and not name.endswith(".py"):
        path = (project / name / _INIT).resolve()
    else:
        path = find_code_file(name, project=project)
    if path is None or not path.is_file():
        others = f"Built in are {', '.join(built_in)}; or name a .py file or a package."
        raise HoneError(
            "program-unknown",
            f"There is no program {name!r}.",
            why="It is not built in, and no such module or file was found from the project's root.",
            hint=suggest(known, built_in).rstrip() or others,
        )
    return ProgramFile(path=str(path), digest=_digest_program(path))


def list_options(program: ProgramFile) -> frozenset[str] | None:
    """Return the options that a program declares in ``OPTIONS``, read from its text; None if they cannot be known.

    That is so without ``OPTIONS``, which allows any, and if it is not a literal of its own.
    """
    named = _read_options(program.path)
    return None if named is None or None in named else frozenset(filter(None, named))


def _read_options(path: str) -> list[str | None] | None:
    """Return the keys of ``OPTIONS`` in a file, with None for others that it takes over; None without a literal."""
    try:
        body = ast.parse(Path(path).read_text(encoding="utf-8")).body
    except (OSError, ValueError, SyntaxError, RecursionError, MemoryError):  # its worker explains what is wrong
        return None
    for line in body:
        targets = line.targets if isinstance(line, ast.Assign) else [getattr(line, "target", None)]
        named = any(isinstance(one, ast.Name) and one.id == "OPTIONS" for one in targets)
        if named and isinstance(value := getattr(line, "value", None), ast.Dict):
            return [str(key.value) if isinstance(key, ast.Constant) else None for key in value.keys]
    return None


def _fit_hint(hint: str, path: str) -> str:
    """Return a hint without the sentence about options that a program does not have."""
    named = _read_options(path)
    return hint if named is None or {"output", "classes"} <= {*named} else hint.replace(_OPTIONS, "")


def copy_program(program: ProgramFile, folder: Path) -> str:
    """Copy the code of a program into a folder, unless it is built in, so that the same code runs everywhere.

    Returns the name of its file, in the folder or in the library, for ``locate_program``.
    """
    path = Path(program.path)
    if path.is_relative_to(LIBRARY):
        return path.relative_to(LIBRARY).as_posix()
    kept = folder / _KEPT
    if path.name == _INIT:
        shutil.copytree(path.parent, kept / path.parent.name, ignore=shutil.ignore_patterns("__pycache__"))
        return f"{_KEPT}/{path.parent.name}/{_INIT}"
    kept.mkdir()
    return Path(shutil.copyfile(path, kept / path.name)).relative_to(folder).as_posix()


def locate_program(name: str, folder: Path, *, digest: str) -> Path:
    """Return the file of a stored program, by its name from ``copy_program`` and its digest at that time.

    Raises:
        HoneError: ``program-changed``: the code here is different.
    """
    path = folder / name if (folder / name).is_file() else LIBRARY / name
    if not path.is_file() or _digest_program(path) != digest:
        raise HoneError(
            "program-changed",
            f"The program {name} is not the one that prepared the samples.",
            why="Another version of kedro-hone is installed here than where they were prepared.",
            hint="Install the same version everywhere, or prepare them again by a run.",
        )
    return path


def _digest_program(path: Path) -> str:
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
    return imports.load_program(find_program(name, project=Path(project)).path, str(LIBRARY))


def digest_metric(name: str | None, *, project: Path) -> str | None:
    """Return the digest of the file of the user's own metric, not imported; None for another metric.

    Raises:
        HoneError: ``metric-unknown`` if the file or module does not exist.
    """
    if name is None or ":" not in name:
        return None
    return digest_file(_find_metric(name, project))


def locate_metric(name: str | None, *, project: Path) -> tuple[str | None, str | None]:
    """Return a metric's name for a worker, and the user's own file that it reads; None if it reads none.

    Raises:
        HoneError: As ``digest_metric``.
    """
    if name is None or ":" not in name:
        return name, None
    path = _find_metric(name, project)
    return f"{path}:{name.rpartition(':')[2]}", str(path)


def _find_metric(name: str, project: Path) -> Path:
    if (path := find_code_file(name.rpartition(":")[0], project=project)) is not None:
        return path
    raise HoneError(
        "metric-unknown",
        f"The metric {name!r} does not exist.",
        why="No such module or file was found from the project's root.",
        hint="Write package.module:function, or path/to/file.py:function from the project's root.",
    )


def digest_programs() -> str:
    """Return ``sha256:…`` of the code that reads splits and scores candidates, for the keys of its results."""
    return digest_worker(LIBRARY / _WORKER / _INIT)


_ISOLATED: Final = (
    " Write absolute paths: the current folder is a temporary one, not the project; and a file outside the project is "
    "there only if hone.program.options has its path."
)


def call_program(
    function: str,
    *,
    job: Mapping[str, Json],
    store: Store,
    run: RunFolder,
    source: Artifact | None = None,
    output: Path | None = None,
) -> dict[str, Json]:
    """Run one function of the program's worker (``check``, ``read`` or ``evaluate``), and return its notes.

    The job contains its options. The log is written to the run's folder, and the user's imports are relative to the
    run's project. The specifications of the tensors are those of the source model; ``check`` needs none. It may only
    write to ``output``.

    Raises:
        HoneError: ``program-failed`` if it fails; errors about bad data have the slug that it reports.
    """
    folder = run.claim_step(f"program-{function}")
    called = Job(
        function=function,
        worker=str(LIBRARY / _WORKER / _INIT),
        adaptor=f"program.{function}",
        stage="program",
        input=JobInput.of(source, store.locate(source)) if source else None,
        output=str(output) if output else None,
        options={**job, "project": str(run.project)},
        reads=(str(LIBRARY),),
    )
    result = call_worker(called, python=Path(sys.executable), toolchain=None, folder=folder, limits=Limits())
    if not isinstance(result, StepResult):
        log = result.log if isinstance(result, Failed) else None
        raise HoneError(
            "program-failed",
            f"The program's {function} failed.",
            why=result.reason,
            hint=f"Read {log or folder / 'log'}, correct the program, and run again."
            + (_ISOLATED if "No such file" in result.reason or "Permission denied" in result.reason else ""),
        )
    if error := result.notes.get("error"):
        hint = _fit_hint(error["hint"], str(job.get("program", "")))
        raise HoneError(error["slug"], error["what"], why=error["why"], hint=hint)
    return result.notes
