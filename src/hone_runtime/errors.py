"""Errors for people: what happened, why, and what to do next; each has a stable slug with a page in the docs."""

from __future__ import annotations

import re
from collections.abc import Sequence
from enum import IntEnum
from functools import partial
from pathlib import Path
from typing import Final

from hone_runtime.text import escape_breaks, hide_secrets


class ExitCode(IntEnum):
    """The exit codes of the process; 1 and 2 belong to Kedro and click."""

    SUCCESS = 0
    INPUT = 3
    BUG = 4
    FAIL = 10
    INCONCLUSIVE = 11
    DRAFT = 12
    INTERRUPTED = 130
    TERMINATED = 143


_PAGES: Final = Path(__file__).parent / "error_pages"

SLUGS: Final = tuple(sorted({page.stem for page in _PAGES.glob("*.md")} - {"index"}))
"""Every slug: an error exists if it has a page in ``docs/errors``, which is installed with the code."""

_EXPLAIN: Final = "kedro-hone explain"
_JOINT: Final = "\n        "
"""Between the lines of a reason or a hint, which are indented like the first one."""
_FORMAT: Final = f"{{what}}\n  why:  {{why}}\n  next: {{hint}}\n  more: {_EXPLAIN} {{slug}}"
_WRITTEN: Final = re.compile(  # parses the result of _FORMAT
    rf"(?P<what>.*)\n  why:  (?P<why>.*)\n  next: (?P<hint>.*)\n  more: {_EXPLAIN} (?P<slug>[a-z-]+)", re.DOTALL
)


class HoneError(Exception):
    """An error that the user can fix: what happened, in one sentence, why (if known), and what to do next.

    Secrets in these sentences are hidden, since the sentences quote messages of libraries. So are line breaks: names of
    columns and files may contain them, and a line of their own could forge a log, or be a command in GitHub's. Several
    lines are given as a sequence.
    """

    def __init__(self, slug: str, what: str, *, why: str | Sequence[str], hint: str | Sequence[str]) -> None:
        if slug not in SLUGS:
            raise ValueError(f"unknown error slug {slug!r}")
        self.slug, (self.what, self.why, self.hint) = slug, map(_join_lines, (what, why, hint))
        super().__init__(slug, self.what, self.why, self.hint)

    def __str__(self) -> str:
        return _FORMAT.format_map(vars(self))

    @classmethod
    def find(cls, error: BaseException) -> HoneError | None:
        """Return an exception if it is an error for people, else the first such error among its causes; None if absent.

        An exception's causes are lost when it is pickled, for example by the processes of ``ParallelRunner``. Then the
        error is parsed from the remaining text, in the form that ``str`` writes.
        """
        cause: BaseException | None = error
        while cause is not None and not isinstance(cause, HoneError):
            cause = cause.__cause__
        if cause is None and (found := _WRITTEN.search(str(error))) and found["slug"] in SLUGS:
            return HoneError(found["slug"], found["what"], why=read_lines(found["why"]), hint=read_lines(found["hint"]))
        return cause

    def __reduce__(self) -> tuple[object, ...]:
        return partial(type(self), why=read_lines(self.why), hint=read_lines(self.hint)), (self.slug, self.what)


def read_lines(text: str) -> list[str]:
    """Return the lines of an error's reason or hint, from which another error can be made."""
    return text.split(_JOINT)


def _join_lines(text: str | Sequence[str]) -> str:
    lines = [text] if isinstance(text, str) else text
    return _JOINT.join(escape_breaks(hide_secrets(line).rstrip()) for line in lines)


def combine(errors: Sequence[HoneError]) -> HoneError:
    """Return one error for several: that one if there is only one, else an error with a line for each.

    Its slug is theirs if they have the same one, else ``start-refused``.

    Args:
        errors: At least one error; equal ones count once.
    """
    known = list(dict.fromkeys((error.slug, error.what, error.why, error.hint) for error in errors))
    if len(known) == 1:
        return errors[0]
    texts = [
        line
        for number, (slug, what, why, hint) in enumerate(known, 1)
        for line in read_lines(f"{number}. {what} {why} {hint} ({slug})")
    ]
    return HoneError(
        known[0][0] if len({slug for slug, *_ in known}) == 1 else "start-refused",
        f"{len(known)} things must be corrected before a run can start.",
        why=texts,
        hint="Correct each of them; `kedro hone check` or `optimize --dry-run` looks for all of them at once.",
    )


def read_page(slug: str) -> str:
    """Return an error's page of the installed documentation, without the targets of links."""
    return re.sub(r"\[([^\]]+)\]\([^)]*\)", r"\1", (_PAGES / f"{slug}.md").read_text(encoding="utf-8"))
