"""The orders in which a reader may see the candidates of a table, which the page's style applies without a script."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

from kedro_hone.report.records import CandidateRecord

_Key = Callable[[CandidateRecord], float | None]


class Order(NamedTuple):
    """One order of a table's rows: an identifier, a label, and the place of each row, from 1."""

    name: str
    label: str
    places: tuple[int, ...]


def _find_loss(candidate: CandidateRecord) -> float | None:
    return candidate.quality.drop.estimate if candidate.quality else None


_KEYS: Final[tuple[tuple[str, str, _Key], ...]] = (
    ("quality", "quality", _find_loss),
    ("size", "size", lambda one: one.size_bytes),
    ("start", "cold start", lambda one: one.cold_start_ms),
    ("memory", "memory", lambda one: one.peak_memory_bytes),
    ("build", "build time", lambda one: one.build_seconds or None),
)


def list_orders(candidates: Sequence[CandidateRecord]) -> tuple[Order, ...]:
    """Return the orders that rows in the given order, fastest first, can be brought to; empty for a single row.

    In each the smallest value is first, and rows without a value are last. An order without any value is left out.
    """
    if len(candidates) < 2:
        return ()
    keys = [(name, label, [key(one) for one in candidates]) for name, label, key in _KEYS]
    return tuple(Order(name, label, _rank(values)) for name, label, values in keys if set(values) != {None})


def _rank(values: Sequence[float | None]) -> tuple[int, ...]:
    """Return the place of each value among them, from 1; None is last, and equal values keep their order."""
    order = sorted(range(len(values)), key=lambda at: (values[at] is None, values[at] or 0.0))
    places = {row: place for place, row in enumerate(order, start=1)}
    return tuple(places[row] for row in range(len(values)))
