"""What the user sees when something goes wrong, and what the shell gets."""

from __future__ import annotations

import functools
import sys
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from kedro_hone.core.errors import ExitCode
from kedro_hone.datasets.errors import find_error


def explain_failures(function: Callable[..., Any]) -> Callable[..., Any]:
    """Turn what a command raises into words and an exit code.

    An error of the user's is explained (exit code 3); anything else is our bug, with a log to attach (4). Click's own
    exceptions pass.

    Args:
        function: The command.

    Returns:
        The command that does so.
    """

    @functools.wraps(function)
    def guarded(*args: Any, **kwargs: Any) -> Any:
        try:
            return function(*args, **kwargs)
        except (click.ClickException, click.exceptions.Exit, click.Abort):
            raise
        except KeyboardInterrupt:
            click.secho("Interrupted; what was built is kept.", fg="yellow", err=True)
            sys.exit(ExitCode.INTERRUPTED)
        except Exception as error:  # noqa: BLE001 - the outermost frame: nothing is swallowed, all of it is reported
            known = find_error(error)
            if known is not None:
                click.secho(f"\n{known}", fg="red", err=True)
                sys.exit(ExitCode.INPUT)
            log = write_log(error, Path("data/hone"))
            click.secho(f"\nThis is a bug in kedro-hone: {type(error).__name__}: {error}", fg="red", err=True)
            click.echo(f"Please report it with the file {log}.", err=True)
            sys.exit(ExitCode.BUG)

    return guarded


def write_log(error: BaseException, folder: Path) -> Path:
    """Write a traceback to ``bug.log`` and return the file."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "bug.log"
    path.write_text("".join(traceback.format_exception(error)))
    return path
