"""Interleaved rounds: every entrant once in each round, in random order, while all others are stopped.

The machine's speed drifts and other programs come and go; what is compared is therefore always measured within the
same round (paired design), and the order is random so that no entrant is always first (blocking and randomization,
G. E. P. Box, J. S. Hunter and W. G. Hunter, *Statistics for Experimenters*, 2nd ed., 2005, ch. 3-4).
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from statistics import median

from kedro_hone.core.measuring.launches import Entrant
from kedro_hone.core.values.outcome import Failed

WARM_UP = 0.25
"""The part of a burst that is called before it and not counted: caches and clocks have to come back after a stop."""


@dataclass
class Timings:
    """What was measured.

    Attributes:
        rounds: For each entrant and shape, one list of calls for each round, in nanoseconds.
        starts: For each entrant, how many rounds had been measured when it joined.
        failures: Entrants that failed while they were measured.
        count: How many rounds there were.
    """

    rounds: dict[str, dict[str, list[list[int]]]] = field(default_factory=dict)
    starts: dict[str, int] = field(default_factory=dict)
    failures: dict[str, Failed] = field(default_factory=dict)
    count: int = 0

    def add(self, entrant: str, shape: str, times: Sequence[int]) -> None:
        """Add the calls of one round."""
        self.starts.setdefault(entrant, self.count)
        self.rounds.setdefault(entrant, {}).setdefault(shape, []).append(list(times))

    def medians(self, entrant: str, shape: str) -> list[float]:
        """Return the median call of each round, in nanoseconds."""
        return [median(times) for times in self.rounds.get(entrant, {}).get(shape, [])]

    def calls(self, entrant: str, shape: str) -> list[int]:
        """Return all calls of an entrant at a shape, in nanoseconds."""
        return [time for times in self.rounds.get(entrant, {}).get(shape, []) for time in times]


def measure_round(
    entrants: Iterable[Entrant], shapes: Sequence[str], *, order: random.Random, timings: Timings
) -> None:
    """Measure each entrant once at every shape; all are stopped, before and after.

    Args:
        entrants: In any order.
        shapes: The names of the shapes.
        order: Shuffles the entrants.
        timings: Takes the times; an entrant that fails is noted there and measured no more.
    """
    shuffled = [entrant for entrant in entrants if entrant.id not in timings.failures]
    order.shuffle(shuffled)
    for entrant in shuffled:
        result = _measure(entrant, shapes)
        if isinstance(result, Failed):
            timings.failures[entrant.id] = result
            continue
        for shape, times in result.items():
            timings.add(entrant.id, shape, times)
    timings.count += 1


def _measure(entrant: Entrant, shapes: Sequence[str]) -> dict[str, list[int]] | Failed:
    entrant.session.resume()
    try:
        measured: dict[str, list[int]] = {}
        for shape in shapes:
            calls = entrant.calls[shape]
            times = entrant.session.time(shape, calls=calls, warmup=max(2, round(calls * WARM_UP)))
            if isinstance(times, Failed):
                return times
            measured[shape] = times
        return measured
    finally:
        entrant.session.pause()
