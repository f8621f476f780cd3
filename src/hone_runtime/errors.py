"""Errors for people: what happened, why, and what to do next, under a stable slug that has a page in the docs."""

from __future__ import annotations

import re
from enum import IntEnum
from functools import partial
from pathlib import Path
from typing import Final

from hone_runtime.text import hide_secrets


class ExitCode(IntEnum):
    """What the process returns; 1 and 2 belong to Kedro and click."""

    SUCCESS = 0
    INPUT = 3
    BUG = 4
    FAIL = 10
    INCONCLUSIVE = 11
    INTERRUPTED = 130
    TERMINATED = 143


_PAGES: Final = Path(__file__).parent / "error_pages"

SLUGS: Final = tuple(sorted({page.stem for page in _PAGES.glob("*.md")} - {"index"}))
"""Every slug: an error is what has a page in ``docs/errors``, which is installed with the code."""

_EXPLAIN: Final = "python -m kedro_hone hone explain"
_FORMAT: Final = f"{{what}}\n  why:  {{why}}\n  next: {{hint}}\n  more: {_EXPLAIN} {{slug}}"
_WRITTEN: Final = re.compile(  # reads what _FORMAT writes
    rf"(?P<what>.*)\n  why:  (?P<why>.*)\n  next: (?P<hint>.*)\n  more: {_EXPLAIN} (?P<slug>[a-z-]+)", re.DOTALL
)


class HoneError(Exception):
    """An error that the user can fix: what happened, in one sentence, why, as far as is known, and what to do next.

    Secrets in these sentences are hidden: they quote what libraries say.
    """

    def __init__(self, slug: str, what: str, *, why: str, hint: str) -> None:
        if slug not in SLUGS:
            raise ValueError(f"unknown error slug {slug!r}")
        self.slug, (self.what, self.why, self.hint) = slug, map(hide_secrets, (what, why, hint))
        super().__init__(slug, self.what, self.why, self.hint)

    def __str__(self) -> str:
        return _FORMAT.format_map(vars(self))

    @classmethod
    def find(cls, error: BaseException) -> HoneError | None:
        """Return an exception if it is an error for people, else the first of them among its causes, if there is any.

        An exception's causes are lost when it is pickled, as on the way from the processes of ``ParallelRunner``: then
        the error is read back from the text that is left, as ``str`` writes it.
        """
        cause: BaseException | None = error
        while cause is not None and not isinstance(cause, HoneError):
            cause = cause.__cause__
        if cause is None and (found := _WRITTEN.search(str(error))) and found["slug"] in SLUGS:
            return HoneError(**found.groupdict())
        return cause

    def __reduce__(self) -> tuple[object, ...]:
        return partial(type(self), why=self.why, hint=self.hint), (self.slug, self.what)


def read_page(slug: str) -> str:
    """Return an error's page of the documentation, as it is installed, without the targets of links."""
    return re.sub(r"\[([^\]]+)\]\([^)]*\)", r"\1", (_PAGES / f"{slug}.md").read_text(encoding="utf-8"))
