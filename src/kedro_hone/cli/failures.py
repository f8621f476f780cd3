"""How a command ends: messages, exit codes and ``kedro hone explain``.

SIGTERM ends a command as Ctrl-C does: workers are ended, locks are released, and a line reports it.
"""

from __future__ import annotations

import difflib
import errno
import multiprocessing
import os
import re
import select
import shutil
import signal
import sys
import tempfile
import threading
import traceback
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from types import FrameType
from typing import Any

import click

from hone_runtime.errors import SLUGS, ExitCode, HoneError, read_page
from hone_runtime.text import clean_line, clean_text, hide_secrets
from kedro_hone.core.store.disk import find_disk_error
from kedro_hone.graph import find_work
from kedro_hone.report.result_file import note_result

_SCARCE_BYTES = 1 << 20  # with fewer free bytes than this, a worker's log may be missing
_WRITTEN = re.compile(r"\[Errno (\d+)\] [^:\n]*(?:: '([^'\n]+)')?")
_DISK_ERRORS = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EROFS})

_AGAIN_SECONDS = 0.5


class _Slug(click.Choice[str]):
    """A slug; an unknown one is answered with the nearest known ones, and not with all of them."""

    name = "slug"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """Return the slug."""
        near = difflib.get_close_matches(str(value), SLUGS, n=3, cutoff=0.4)
        said = f"Did you mean {' or '.join(near)}?" if near else "The documentation lists all of them under Errors."
        if value not in SLUGS:
            self.fail(f"there is no error {value!r}. {said}", param, ctx)
        return str(value)


@click.command()
@click.argument("slug", type=_Slug(SLUGS), metavar="SLUG")
def explain(slug: str) -> None:
    """Say why an error happens and what to do, by the name at its end."""
    click.echo(read_page(slug), nl=False)


@contextmanager
def explain_failures() -> Iterator[None]:
    """Convert a command's exception to a message and an exit code.

    An error that the user can correct is explained (exit code 3); anything else is a bug, with a log to attach (4).
    Click's own exceptions are not changed, nor is a closed output pipe, which Click handles like other programs.
    """
    try:
        with _raise_on_termination():
            yield
    except (click.ClickException, click.exceptions.Exit, click.Abort):
        raise
    except KeyboardInterrupt as stop:
        code = ExitCode.TERMINATED if isinstance(stop, _Terminated) else ExitCode.INTERRUPTED
        click.secho(f"{code.name.capitalize()}; what was built is kept.", fg="yellow", err=True)
        sys.exit(code)
    except Exception as error:
        if isinstance(error, BrokenPipeError) and _is_unread(1):
            raise
        known = _find_disk_error(error) or HoneError.find(error)
        if known is not None:
            with suppress(OSError):  # the disk may be full, which is then reported
                note_result(slug=known.slug, message=f"{known.what} {known.why}")
            click.secho(clean_text(f"\n{known}"), fg="red", err=True)
            sys.exit(ExitCode.INPUT)
        log = _write_log(error)
        said = clean_line(f"This is a bug in kedro-hone: {type(error).__name__}: {error}")
        click.secho(f"\n{said}", fg="red", err=True)
        click.echo(f"Please report it with the file {log}.", err=True)
        sys.exit(ExitCode.BUG)


def _is_unread(descriptor: int) -> bool:
    """Return whether it is a pipe without a reader, as in ``kedro hone toolchains | head``."""
    poll = select.poll()
    poll.register(descriptor, 0)
    return any(event & select.POLLERR for _, event in poll.poll(0))


class _Terminated(KeyboardInterrupt):
    """The process was requested to end; raised at any point, so that everything is closed on the way out."""


@contextmanager
def _raise_on_termination() -> Iterator[None]:
    """Raise ``_Terminated`` when SIGTERM comes, unless it is already handled."""
    main = threading.current_thread() is threading.main_thread()  # only the main thread may set a handler
    if not main or signal.getsignal(signal.SIGTERM) is not signal.SIG_DFL:
        yield
        return
    signal.signal(signal.SIGTERM, _terminate)
    alarm, show = signal.getsignal(signal.SIGALRM), sys.unraisablehook
    # A lost exception is raised again: no report is needed.
    sys.unraisablehook = lambda lost: None if isinstance(lost.exc_value, _Terminated) else show(lost)
    try:
        yield
    finally:
        # If the signal is ignored by now, the process is about to end, and a second signal must not kill it.
        if signal.getsignal(signal.SIGTERM) is _terminate:
            signal.signal(signal.SIGTERM, signal.SIG_DFL)
        if signal.getsignal(signal.SIGALRM) is _raise_again:
            signal.setitimer(signal.ITIMER_REAL, 0)
            signal.signal(signal.SIGALRM, alarm)
        sys.unraisablehook = show


def _terminate(number: int, _: FrameType | None) -> None:
    if multiprocessing.parent_process() is not None:
        # Forked from us by a parallel runner: its pool would mistake the exception for a node's and continue. The
        # guards of this process's workers end them when it is gone, and the kernel releases its locks.
        signal.signal(number, signal.SIG_DFL)
        os.kill(os.getpid(), number)
        return
    signal.signal(number, signal.SIG_IGN)  # a second signal would disturb the closing
    for child in multiprocessing.active_children():
        child.terminate()
    if signal.getsignal(signal.SIGALRM) is signal.SIG_DFL:
        signal.signal(signal.SIGALRM, _raise_again)
        signal.setitimer(signal.ITIMER_REAL, _AGAIN_SECONDS, _AGAIN_SECONDS)
    raise _Terminated


def _raise_again(_: int, __: FrameType | None) -> None:
    """Raise ``_Terminated`` again if it was lost.

    Python drops exceptions raised in a finalizer or in a callback of a weak reference, such as those of the import
    system. Pydantic drops those raised while it reads a value's class. Without this, the run would continue to its end.
    """
    error = sys.exc_info()[1]
    while error is not None and not isinstance(error, _Terminated):
        error = error.__context__
    if error is None:
        raise _Terminated


def _find_disk_error(error: BaseException) -> HoneError | None:
    """Return the error for the user if a disk was full or read-only, in this process or another."""
    number, file = _find_cause(error) or (errno.ENOSPC if _may_lack_space(error) else None, None)
    return None if number is None else find_disk_error(OSError(number, os.strerror(number), file), find_work())


def _find_cause(error: BaseException | None) -> tuple[int, str | None] | None:
    """Return the number of a disk's error, and its file if known."""
    while error is not None:
        found = _WRITTEN.search(str(error))  # only the text of an OSError from another process is left
        if found and int(found[1]) in _DISK_ERRORS:
            return int(found[1]), found[2]
        error = error.__cause__
    return None


def _may_lack_space(error: BaseException) -> bool:
    """Return whether a worker ended without a message while the disk was full."""
    known = HoneError.find(error)
    unclear = known is None or known.slug in {"program-failed", "source-failed"}
    return unclear and find_work().exists() and shutil.disk_usage(find_work()).free < _SCARCE_BYTES


def _write_log(error: BaseException) -> Path:
    """Write a traceback to ``bug.log`` in the project's data, or in a temporary folder if that fails."""
    text = hide_secrets("".join(traceback.format_exception(error)))
    path = find_work() / "bug.log"
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    except OSError:
        path = Path(tempfile.mkdtemp(prefix="kedro-hone-")) / "bug.log"
        path.write_text(text)
    return path
