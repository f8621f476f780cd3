"""Commands and code to copy from a terminal: they work in the folder in which the user typed the command."""

from __future__ import annotations

import json
import os
import shlex
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

START: Final = "HONE_START"
"""The variable with the folder in which the command was typed, if the run is in another one."""
_REGISTRY: Final = "MLFLOW_TRACKING_URI"
_COMMAND: Final = "`kedro-hone run"


@contextmanager
def note_start(start: Path) -> Iterator[None]:
    """Note, while the block runs, in which folder the user typed the command."""
    before = os.environ.get(START)
    os.environ[START] = str(start)
    try:
        yield
    finally:
        if before is None:
            os.environ.pop(START, None)
        else:
            os.environ[START] = before


def complete_command(text: str, project: Path | None) -> str:
    """Return a text whose command for a run also enters the project's folder, if the user is in another one.

    Args:
        text: Any text, such as the advice to confirm on a quiet machine.
        project: The project's folder; None if it is not known.
    """
    start = Path(os.environ.get(START) or Path.cwd())
    if project is None or project.resolve() == start.resolve():
        return text
    return text.replace(_COMMAND, f"`{enter(project)}kedro-hone run")


def enter(project: Path) -> str:
    """Return the beginning of a command line that enters a folder, with the registry that was found by itself."""
    found = _find_registry()
    variable = f"{_REGISTRY}={shlex.quote(found)} " if found else ""
    return f"cd {shlex.quote(str(project))} && {variable}"


def complete_code(code: str) -> str:
    """Return a line of Python that loads from the registry that was found by itself: no shell has its variable."""
    found = _find_registry()
    if not found or '"models:/' not in code:
        return code
    return f'import os; os.environ["{_REGISTRY}"] = {json.dumps(found)}; {code}'


def find_project(run: Path) -> Path | None:
    """Return the project of a run's folder; None if the folder is elsewhere."""
    places = run.absolute().parents
    return next((one.parents[1] for one in places if (one.parent.name, one.name) == ("data", "hone")), None)


def _find_registry() -> str:
    """Return the URI of a registry in the folder in which the command was typed, which the run found by itself."""
    start, uri = os.environ.get(START), os.environ.get(_REGISTRY, "")
    if not start:
        return ""
    return uri if uri.startswith((f"sqlite:///{start}/", f"{Path(start).as_uri()}/")) else ""
