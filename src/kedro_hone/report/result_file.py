"""The result of a run for the program that started it, as JSON in the file in ``HONE_RESULT``."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

from hone_runtime.values.base import Value
from hone_runtime.values.regular import read_regular
from kedro_hone.core.store.disk import write_file

VARIABLE: Final = "HONE_RESULT"
"""The variable with the path of the file; without it nothing is written."""


class RunResult(Value):
    """The results of a run so far; the file is written when the run starts, and at each change.

    Attributes:
        folder: The run's folder; empty before it exists.
        verdict: ``PASS``, ``KEEP``, ``FAIL``, ``INCONCLUSIVE`` or ``DRAFT``; empty before there is one.
        published: The URI of the new version; empty if absent.
        awaits: The alias that a person's approval moves to it; empty if it waits for none.
        slug: The name of the error that ended the run; empty if none did.
        speed: How much faster the winner is at which shapes, in words; empty without one.
        message: What happened, in one sentence, and why; for a verdict other than ``PASS``, its reasons.
    """

    folder: str = ""
    verdict: str = ""
    published: str = ""
    awaits: str = ""
    slug: str = ""
    speed: str = ""
    message: str = ""


def note_result(**changes: str) -> None:
    """Change some of the attributes in the file; without the variable, do nothing.

    Raises:
        OSError: The file cannot be written.
    """
    if path := os.environ.get(VARIABLE):
        result = read_result(Path(path)).model_copy(update=changes)
        write_file(Path(path), result.model_dump_json(indent=2).encode() + b"\n")


def read_result(path: Path) -> RunResult:
    """Return the result in a file; an empty one if the file is missing or has none.

    A field of a newer version is ignored: a service that was not restarted must not lose a publication by it.
    """
    try:
        return RunResult.model_validate_json(read_regular(path), extra="ignore")
    except (OSError, ValueError):  # of pydantic, too
        return RunResult()
