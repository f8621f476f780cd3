"""Programs: how data become a model's inputs, how its outputs become predictions, and how good those are.

A program is a file, handed to workers by path. Nothing here imports one.
"""

from __future__ import annotations

import difflib
from pathlib import Path
from types import MappingProxyType
from typing import Final

from kedro_hone.core.errors import HoneError
from kedro_hone.core.values.base import Value
from kedro_hone.core.values.digest import digest_file, digest_json
from kedro_hone.core.workers.host.code_files import find_code_file

_HERE = Path(__file__).parent

PROGRAMS: Final = MappingProxyType(
    {
        "fidelity": "fidelity.py",
        "image-classification": "image_classification.py",
        "tabular-classification": "tabular_classification.py",
        "tabular-regression": "tabular_regression.py",
    }
)
"""The built-in programs and their files."""

WORKER: Final = _HERE / "worker.py"
"""The worker file that runs programs: its functions are ``check``, ``read`` and ``evaluate``."""


class ProgramFile(Value):
    """A file of code that workers run.

    Attributes:
        name: As the recipe names it.
        path: The file, absolute.
        digest: ``sha256:…`` of it.
    """

    name: str
    path: str
    digest: str


def find_program(name: str, *, project: Path) -> ProgramFile:
    """Find a program without importing it.

    Args:
        name: A built-in program, ``package.module``, or ``path/to/program.py`` from the project's root.
        project: The project's root.

    Returns:
        The program's file.

    Raises:
        HoneError: ``program-unknown``.
    """
    known = name.replace("_", "-")
    path = _HERE / PROGRAMS[known] if known in PROGRAMS else find_code_file(name, project=project)
    if path is None:
        near = difflib.get_close_matches(known, PROGRAMS, 1)
        raise HoneError(
            "program-unknown",
            f"There is no program {name!r}.",
            why="It is not built in, and no such module or file was found from the project's root.",
            hint=f"Did you mean {near[0]!r}?" if near else f"Built in are {', '.join(PROGRAMS)}; or name a .py file.",
        )
    return ProgramFile(name=name, path=str(path), digest=digest_file(path))


def find_metric(name: str | None, *, project: Path) -> ProgramFile | None:
    """Find the file of the user's own metric without importing it, for the keys of what it measured.

    Args:
        name: What the recipe names as metric.
        project: The project's root.

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
    return ProgramFile(name=name, path=str(path), digest=digest_file(path))


def digest_worker() -> str:
    """Return ``sha256:…`` of the code that reads splits and scores candidates, for the keys of what it made."""
    return digest_json(
        {name: digest_file(_HERE / name) for name in ("worker.py", "reading.py", "metrics.py", "scoring.py")}
    )
