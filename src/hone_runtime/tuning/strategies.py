"""The strategies of a tuning: each proposes operators for int8 after int8 everywhere has failed."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any

from .search import Search


def search_by_sensitivity(search: Search[Any]) -> None:
    """Find the operators with the least divergence for the time that int8 saves, by bisection.

    This is the greedy solution of a knapsack: the divergences of single operators add up, so the allowed sum is a
    budget, and operators are ordered by divergence for saved time (Dantzig, "Discrete-variable extremum problems",
    1957). The first budget is the share of all divergence that would cause the accepted drop, if the drop grew with it
    linearly. Bisection then finds the longest beginning of the order that holds the limit. The operator after it is
    left out, and the search continues with those of a smaller divergence.

    Raises:
        ExhaustedError: No further evaluation is allowed.
    """
    rest, kept = order_by_sensitivity(search), list[str]()
    known_bad = len(rest) if len(rest) == len(search.names) else len(rest) + 1
    first = _count_within_budget(search, rest)
    while rest:
        fits = _bisect(search, kept, rest, first=first, bad=known_bad)
        kept += rest[:fits]
        if fits == len(rest):
            return
        guilty = search.scores[rest[fits]]
        rest = [name for name in rest[fits + 1 :] if search.scores[name] < guilty]
        first, known_bad = len(rest), len(rest) + 1


def order_by_sensitivity(search: Search[Any]) -> list[str]:
    """Return the operators with a finite divergence, the least divergence for its time first; ties by larger time."""
    scores = search.score()
    places = {name: place for place, name in enumerate(search.names)}
    known = [name for name in search.names if math.isfinite(scores.get(name, math.inf))]
    return sorted(
        known, key=lambda name: (scores[name] / search.find_time(name), -search.find_time(name), places[name])
    )


def _count_within_budget(search: Search[Any], order: Sequence[str]) -> int:
    """Return how many operators of an order are expected to cause the accepted drop together."""
    drops = search.points[0].drops  # those of all operators
    failing = {name: drop for name, drop in drops.items() if drop > search.accepted[name]}  # not NaN
    share = min((search.accepted[name] / drop for name, drop in failing.items()), default=0.5)
    budget = share * math.fsum(search.scores[name] for name in order)
    sums = itertools.accumulate(search.scores[name] for name in order)
    return sum(total <= budget for total in sums)


def _bisect(search: Search[Any], kept: Sequence[str], rest: Sequence[str], *, first: int, bad: int) -> int:
    """Return how many of the rest can be quantized next to those that are kept.

    ``first`` is the first number to try, and ``bad`` the least that is known or assumed to fail.
    """
    good, trial = 0, min(max(first, 1), bad - 1)
    while bad - good > 1:
        if search.evaluate([*kept, *rest[:trial]]):
            good = trial
        else:
            bad = trial
        trial = (good + bad) // 2
    return good


def search_from_all(search: Search[Any]) -> None:
    """Return the operators to fp32 one by one, the largest divergence first, until the limit holds.

    Operators that were not scored are returned first. As neural-compressor's strategy ``basic``.

    Raises:
        ExhaustedError: No further evaluation is allowed.
    """
    scores = search.score()
    worst = sorted(search.names, key=lambda name: -scores.get(name, math.inf))
    for count in range(1, len(worst)):
        if search.evaluate(worst[count:]):
            return


def search_exhaustively(search: Search[Any]) -> None:
    """Try all subsets of the operators, those with the largest saved time first, until one holds the limit.

    Raises:
        ExhaustedError: No further evaluation is allowed.
    """
    subsets = [subset for size in range(1, len(search.names)) for subset in itertools.combinations(search.names, size)]
    for subset in sorted(subsets, key=lambda one: -search.sum_times(one)):
        if search.evaluate(subset):
            return


STRATEGIES: Mapping[str, Callable[[Search[Any]], None]] = MappingProxyType(
    {"sensitivity": search_by_sensitivity, "basic": search_from_all, "exhaustive": search_exhaustively}
)
"""The strategies by name."""
