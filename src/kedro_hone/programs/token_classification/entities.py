"""Entities in the tags of a sentence, as defined by ``seqeval.metrics.sequence_labeling.get_entities`` and conlleval.

By default these are lenient: an entity may begin with ``I-`` after another type or after ``O``.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

_TAG = re.compile(r"[BIES]-.+")


def has_entities(names: Iterable[Any]) -> bool:
    """Return whether tags are those of entities: ``O``, and ``B-PER``, ``I-PER`` and the like."""
    texts = [str(name) for name in names]
    return any(map(_TAG.fullmatch, texts)) and all(name == "O" or _TAG.fullmatch(name) for name in texts)


def list_entities(tags: list[str]) -> list[tuple[str, int, int]]:
    """Return the entities of a sentence: type, first and last word."""
    entities = []
    before, kind, begin = "O", "", 0
    for at, tag in enumerate([*tags, "O"]):
        mark, own = tag[0], tag[2:]
        if _ends(before, mark, other=kind != own):
            entities.append((kind, begin, at - 1))
        if _starts(before, mark, other=kind != own):
            begin = at
        before, kind = mark, own
    return entities


def _ends(before: str, mark: str, *, other: bool) -> bool:
    if before in "ES":
        return True
    return before in "BI" and (mark in "BSO" or other)


def _starts(before: str, mark: str, *, other: bool) -> bool:
    if mark in "BS":
        return True
    return mark in "EI" and (before in "ESO" or other)
