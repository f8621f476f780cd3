"""From the raw times of launches to figures with intervals, by the statistics of a search."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, TypeVar

import numpy as np

from hone_runtime.values.measurement import Interval, Latency
from hone_runtime.values.wire import WireCell, WireSide
from kedro_hone.core.stats.intervals import interval_of_ratios
from kedro_hone.core.stats.speed import percentiles, ratio_in_launch

CONFIDENCE: Final = 0.95
T = TypeVar("T")


@dataclass(frozen=True, kw_only=True)
class Turn:
    """What clients measured of one server in one turn.

    Attributes:
        seconds: From the first request to the end of the turn.
        answered: The answers in these seconds.
        latencies: The times of all requests, in nanoseconds, also of those in flight at the end.
        cpu_seconds: The server's CPU time for all requests.
        idle_cpu_seconds: The CPU time of the other server meanwhile.
        different: How many different answers there were.
        compared: How many of them were compared with the recorded one.
    """

    seconds: float
    latencies: tuple[int, ...]
    answered: int
    cpu_seconds: float
    idle_cpu_seconds: float = 0.0
    different: int = 1
    compared: int = 1

    @property
    def seconds_each(self) -> float:
        """The time for each answer: the inverse of the throughput."""
        return self.seconds / self.answered

    @property
    def median(self) -> float:
        """The median time, in nanoseconds."""
        return float(np.median(self.latencies))


Turns = tuple[Turn, Turn]
"""The two turns of a server in one launch."""


def sort_turns(turns: Sequence[T], *, winner_first: bool) -> list[T]:
    """Return four turns as baseline, winner, winner, baseline; neighbours stay neighbours.

    Args:
        turns: In the order in which they were taken.
        winner_first: Whether that was winner, baseline, baseline, winner.
    """
    first, second, third, fourth = turns
    return [second, first, fourth, third] if winner_first else [first, second, third, fourth]


def summarize_cell(clients: int, launches: Sequence[tuple[Turns, Turns]]) -> WireCell:
    """Return the figures of a number of clients, from the turns of the baseline and of the winner in each launch.

    Raises:
        ValueError: Fewer than two launches.
    """
    baselines, winners = zip(*launches, strict=True)
    return WireCell(
        clients=clients,
        baseline=_summarize_side(clients, baselines),
        winner=_summarize_side(clients, winners),
        throughput=compare_launches(launches, lambda turn: turn.seconds_each),
        speedup=compare_launches(launches, lambda turn: turn.median),
    )


def compare_launches(launches: Sequence[tuple[Turns, Turns]], measure: Callable[[Turn], float]) -> Interval:
    """Return a time of the baseline over that of the winner, with its interval over launches.

    A turn of one is compared with the next turn of the other, so that slow phases of a machine affect both alike.
    """
    ratios = [
        ratio_in_launch([measure(one) for one in baseline], [measure(one) for one in winner])
        for baseline, winner in launches
    ]
    return interval_of_ratios(ratios, confidence=CONFIDENCE)


def _summarize_side(clients: int, launches: Sequence[Turns]) -> WireSide:
    name = f"{clients} client{'s' if clients > 1 else ''}"
    together = [tuple(time for turn in turns for time in turn.latencies) for turns in launches]
    each = [percentiles(name, times) for times in together]
    turns = [turn for pair in launches for turn in pair]
    return WireSide(
        throughput=interval_of_ratios(
            [sum(one.answered for one in pair) / sum(one.seconds for one in pair) for pair in launches],
            confidence=CONFIDENCE,
        ),
        median_ms=interval_of_ratios([one.p50_ms for one in each], confidence=CONFIDENCE),
        p90_ms=_find_interval([one.p90_ms for one in each]),
        p99_ms=_find_interval([one.p99_ms for one in each]),
        latency=percentiles(name, [time for times in together for time in times]),
        cpu_ms=1e3 * sum(one.cpu_seconds for one in turns) / sum(len(one.latencies) for one in turns),
    )


def _find_interval(values: Sequence[float | None]) -> Interval | None:
    """Return the interval over launches; None if a launch has too few samples."""
    known = [value for value in values if value is not None]
    return interval_of_ratios(known, confidence=CONFIDENCE) if len(known) == len(values) else None


def summarize_direct(launches: Sequence[Sequence[Sequence[int]]]) -> tuple[Latency, Latency, Interval]:
    """Return the times of both without a server, and their ratio over launches.

    Args:
        launches: For each launch the times of four turns in nanoseconds: baseline, winner, winner, baseline.
    """
    times: Mapping[int, list[int]] = {0: [], 1: []}
    ratios = []
    for first, second, third, fourth in launches:
        times[0].extend((*first, *fourth))
        times[1].extend((*second, *third))
        baseline, winner = ([float(np.median(one)) for one in pair] for pair in ((first, fourth), (second, third)))
        ratios.append(ratio_in_launch(baseline, winner))
    baseline_times, winner_times = (percentiles("without a server", times[side]) for side in (0, 1))
    return baseline_times, winner_times, interval_of_ratios(ratios, confidence=CONFIDENCE)
