"""The progress of a run for the program that started it, as JSON next to the file in ``HONE_RESULT``.

It is a file of its own: the result is written by other threads, and none of its changes may be lost.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

from pydantic import Field

from hone_runtime.values.base import Value
from hone_runtime.values.regular import read_regular
from kedro_hone.core.store.disk import write_file
from kedro_hone.report.result_file import VARIABLE

NAME: Final = "progress.json"


class Progress(Value):
    """How far a run is.

    Attributes:
        title: The phase, and how many of its steps are done.
        clock: The time that passed and the expected rest, in words.
        share: The share of the expected time that passed; None if the rest is unknown.
        best: The best candidate so far; empty if unknown.
    """

    title: str = ""
    clock: str = ""
    share: float | None = Field(None, ge=0, le=1)
    best: str = ""


def note_progress(progress: Progress) -> None:
    """Write the progress; without the variable, do nothing.

    Raises:
        OSError: The file cannot be written.
    """
    if path := os.environ.get(VARIABLE):
        write_file(Path(path).with_name(NAME), progress.model_dump_json().encode() + b"\n")


def read_progress(folder: Path) -> Progress | None:
    """Return the progress in a folder; None if absent."""
    try:
        return Progress.model_validate_json(read_regular(folder / NAME), extra="ignore")
    except (OSError, ValueError):  # of pydantic, too
        return None
