"""Throughput of several clients with intervals over launches, from the raw timings of the confirmation."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from kedro_hone.core.stats.intervals import interval_of_ratios
from kedro_hone.report.records import ThroughputRecord

_FEWEST: Final = 3
"""The fewest launches that an interval is made from."""


def list_throughputs(
    *,
    timings: Mapping[str, NDArray[Any]],
    names: Iterable[str],
    shapes: Mapping[str, Mapping[str, int]],
    clients: Mapping[str, int],
    rounds: int,
    confidence: float,
) -> tuple[ThroughputRecord, ...]:
    """Return the rows per second of some entrants of the confirmation, at each shape with several clients.

    In a round it is the rows of a block over its time; in a launch, which is one sample, the median of its rounds. The
    interval is Student's t on the logarithms over launches, as that of a speed-up is.

    Args:
        timings: The arrays of ``timings.npz``.
        names: The ids of the entrants.
        shapes: The sizes of each shape, by its name.
        clients: How many clients call at each shape.
        rounds: The number of rounds in each launch, which is the same in all.
        confidence: The coverage of each interval.
    """
    found = []
    named = [*dict.fromkeys(names)]
    for shape, count in clients.items():
        for name in named:
            key = f"confirm/{name}/{shape}"
            walls = timings.get(f"{key}/walls")
            if count == 1 or walls is None or len(walls) % rounds or len(walls) // rounds < _FEWEST:
                continue
            rates = shapes[shape]["batch"] * timings[f"{key}/calls"] / (walls / 1e9)
            each = np.median(rates.reshape(-1, rounds), axis=1)
            interval = interval_of_ratios(each, confidence=confidence)
            found.append(
                ThroughputRecord(id=name, shape=shape, clients=count, launches=len(each), rows_per_second=interval)
            )
    return tuple(found)
