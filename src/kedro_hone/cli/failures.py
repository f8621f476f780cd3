"""Error messages and exit codes of the command line."""

from __future__ import annotations

import errno
import functools
import os
import re
import shutil
import sys
import tempfile
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click
from rich.text import Text

from kedro_hone.cli.termination import Terminated, raise_on_termination
from kedro_hone.core.errors import ExitCode, HoneError
from kedro_hone.core.store.disk import explain_disk_errors
from kedro_hone.core.text import clean_text
from kedro_hone.datasets.errors import find_error

_WORK = Path("data/hone")
_SCARCE_BYTES = 1 << 20  # with fewer free bytes than this, a worker's log may be missing
_NUMBER = re.compile(r"\[Errno (\d+)\]")
_DISK_ERRORS = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EROFS})


def explain_failures(function: Callable[..., Any]) -> Callable[..., Any]:
    """Turn what a command raises into a message and an exit code.

    An error that the user can correct is explained (exit code 3); anything else is a bug, with a log to attach (4).
    Click's own exceptions pass.
    """

    @functools.wraps(function)
    def guarded(*args: Any, **kwargs: Any) -> Any:
        try:
            with raise_on_termination():
                return function(*args, **kwargs)
        except (click.ClickException, click.exceptions.Exit, click.Abort):
            raise
        except Terminated:
            click.secho("Terminated; what was built is kept.", fg="yellow", err=True)
            sys.exit(ExitCode.TERMINATED)
        except KeyboardInterrupt:
            click.secho("Interrupted; what was built is kept.", fg="yellow", err=True)
            sys.exit(ExitCode.INTERRUPTED)
        except Exception as error:  # noqa: BLE001 - the outermost frame: every error is reported
            known = _find_disk_error(error) or find_error(error)
            if known is not None:
                click.secho(clean_text(f"\n{known}"), fg="red", err=True)
                sys.exit(ExitCode.INPUT)
            log = _write_log(error)
            said = clean_text(f"\nThis is a bug in kedro-hone: {type(error).__name__}: {error}")
            click.secho(said, fg="red", err=True)
            click.echo(f"Please report it with the file {log}.", err=True)
            sys.exit(ExitCode.BUG)

    return guarded


def describe_broken(name: str, trace: str) -> Text:
    """Return what is printed of something that cannot be imported; nothing in it is read as markup."""
    return Text.assemble(("broken", "red"), clean_text(f" {name}\n{trace}"))


def _find_disk_error(error: BaseException) -> HoneError | None:
    """Return the error for people where a disk was full or read-only, in this process or another."""
    number = _find_number(error) or (errno.ENOSPC if _may_lack_space(error) else None)
    if number is None:
        return None
    try:
        with explain_disk_errors(_WORK.absolute()):
            raise OSError(number, os.strerror(number))
    except HoneError as known:
        return known


def _find_number(error: BaseException | None) -> int | None:
    while error is not None:
        found = _NUMBER.search(str(error))  # text is what is left of an OSError from another process
        number = error.errno if isinstance(error, OSError) else int(found[1]) if found else None
        if number in _DISK_ERRORS:
            return number
        error = error.__cause__
    return None


def _may_lack_space(error: BaseException) -> bool:
    """Return whether a worker ended without a message while the disk was full."""
    known = find_error(error)
    unclear = known is None or known.slug in {"program-failed", "source-failed"}
    return unclear and _WORK.exists() and shutil.disk_usage(_WORK).free < _SCARCE_BYTES


def _write_log(error: BaseException) -> Path:
    """Write a traceback to ``bug.log`` in the project's data, or in a temporary folder where that fails."""
    text = "".join(traceback.format_exception(error))
    path = _WORK / "bug.log"
    try:
        _WORK.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    except OSError:
        path = Path(tempfile.mkdtemp(prefix="kedro-hone-")) / "bug.log"
        path.write_text(text)
    return path
