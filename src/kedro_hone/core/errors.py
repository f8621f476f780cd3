"""Errors for people: what happened, why, and what to do next, under a stable slug that has a page in the docs."""

from __future__ import annotations

import re
from enum import IntEnum
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import Final


class ExitCode(IntEnum):
    """What the process returns; 1 and 2 belong to Kedro and click."""

    SUCCESS = 0
    INPUT = 3
    BUG = 4
    FAIL = 10
    INCONCLUSIVE = 11
    INTERRUPTED = 130
    TERMINATED = 143


SLUGS: Final = MappingProxyType(
    {
        "adaptor-name-taken": "Two adaptors have one name",
        "adaptor-unknown": "The recipe names an adaptor that does not exist",
        "alias-unknown": "The registry has no such alias",
        "data-empty": "A split has no rows",
        "data-modified": "A tracked file was changed since it was committed",
        "data-not-pulled": "DVC knows the file, but no remote or cache holds it",
        "data-not-tracked": "A split is not tracked by DVC",
        "data-overlap": "Two splits share rows",
        "data-revision-unknown": "The pinned revision of a split does not exist",
        "data-unreadable": "A split cannot be read as the program expects",
        "demo-failed": "The demo could not be made",
        "evidence-incomplete": "The evidence of a run is missing, was altered, or proves something else",
        "evidence-unreadable": "The evidence of a run is of another version, or is no evidence",
        "gate-invalid": "A gate cannot be used",
        "gate-unprovable": "The gate split is too small to prove its limit",
        "labels-mismatch": "The labels do not match the model's outputs",
        "metric-unknown": "The recipe names a metric that does not exist",
        "model-corrupt": "The model's file cannot be read",
        "model-external-data": "The model's external data is outside its folder",
        "model-unknown": "The registry has no such model",
        "model-unsupported": "No toolchain can run the source model",
        "pickle-not-trusted": "The model can only be loaded by running code from the registry",
        "program-changed": "The program is not the one that prepared the samples",
        "program-failed": "The program raised an error",
        "program-unknown": "The recipe names a program that does not exist",
        "recipe-invalid": "There is no recipe, or it has an unknown key or a bad value",
        "registry-broken": "A registry of another package cannot be used",
        "registry-scheme-taken": "Two registries serve one kind of URI",
        "registry-unknown": "No registry serves this kind of URI",
        "registry-unreachable": "The registry cannot be reached",
        "replay-unknown": "There is no such step to replay",
        "report-missing": "There is no report yet",
        "source-failed": "The source model failed while it was measured",
        "source-format-broken": "A source format of your own or of another package failed",
        "source-format-taken": "Two source formats have one name",
        "store-full": "The disk that holds the store is full",
        "store-missing": "The store does not hold what an earlier node made",
        "store-read-only": "The store cannot be written",
        "store-unreachable": "The store that machines share cannot be used",
        "toolchain-unbuildable": "The environment of a toolchain cannot be built",
        "toolchain-unknown": "The recipe names a toolchain that does not exist",
        "value-outdated": "A value between two nodes is of another model, other data or another recipe",
        "version-unknown": "The registry has no such version",
    }
)
"""Every slug and the title of its page, which ``read_page`` returns."""

_EXPLAIN: Final = "python -m kedro_hone hone explain"
_FORMAT: Final = f"{{what}}\n  why:  {{why}}\n  next: {{hint}}\n  more: {_EXPLAIN} {{slug}}"
_WRITTEN: Final = re.compile(  # reads what _FORMAT writes
    rf"(?P<what>.*)\n  why:  (?P<why>.*)\n  next: (?P<hint>.*)\n  more: {_EXPLAIN} (?P<slug>[a-z-]+)", re.DOTALL
)

_PAGES: Final = Path(__file__).parents[1] / "error_pages"
_LINK: Final = re.compile(r"\[([^\]]+)\]\([^)]*\)")


class HoneError(Exception):
    """An error that the user can fix.

    Attributes:
        slug: The stable name, a key of ``SLUGS``.
        what: What happened, one sentence.
        why: Why, as far as is known.
        hint: What to do next.
    """

    def __init__(self, slug: str, what: str, *, why: str, hint: str) -> None:
        if slug not in SLUGS:
            raise ValueError(f"unknown error slug {slug!r}")
        self.slug, self.what, self.why, self.hint = slug, what, why, hint
        super().__init__(slug, what, why, hint)

    def __str__(self) -> str:
        return _FORMAT.format_map(vars(self))

    @classmethod
    def read(cls, text: str) -> HoneError | None:
        """Return the error that a text quotes as ``str`` writes it; None where it quotes none.

        For errors that were wrapped in another process: an exception's causes are lost when it is pickled, and its
        text is what is left.
        """
        found = _WRITTEN.search(text)
        return HoneError(**found.groupdict()) if found and found["slug"] in SLUGS else None

    def __reduce__(self) -> tuple[object, ...]:
        return partial(type(self), why=self.why, hint=self.hint), (self.slug, self.what)


def read_page(slug: str) -> str:
    """Return an error's page of the documentation, as it is installed, without the targets of links."""
    return _LINK.sub(r"\1", (_PAGES / f"{slug}.md").read_text(encoding="utf-8"))
