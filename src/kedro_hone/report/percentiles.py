"""Percentiles of the times of a call with intervals over launches, from the raw timings of the confirmation."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from hone_runtime.values.measurement import Interval
from kedro_hone.core.stats.intervals import interval_of_ratios
from kedro_hone.report.records import PercentilesRecord

_LEVELS: Final = {"p50": (50, 1), "p90": (90, 64), "p99": (99, 100)}
"""Of each field: the percentile, and the fewest calls in a launch from which it is taken."""
_FEWEST: Final = 3
"""The fewest launches that an interval is made from."""


def list_percentiles(
    *,
    timings: Mapping[str, NDArray[Any]],
    names: Iterable[str],
    shapes: Iterable[str],
    rounds: int,
    confidence: float,
) -> tuple[PercentilesRecord, ...]:
    """Return the percentiles of some entrants of the confirmation at each shape.

    A launch is one sample: within it calls resemble each other far more than between two of them. So each percentile is
    taken in each launch, and its interval is Student's t on the logarithms over launches, as that of a speed-up is. The
    estimate is the geometric mean over launches, and may differ a little from the percentile of all calls together.

    Args:
        timings: The arrays of ``timings.npz``: nanoseconds of each call, and the number of calls in each round.
        names: The ids of the entrants.
        shapes: The recipe's names of the shapes.
        rounds: The number of rounds in each launch, which is the same in all.
        confidence: The coverage of each interval.
    """
    pairs = [(name, shape) for shape in dict.fromkeys(shapes) for name in dict.fromkeys(names)]
    found = (_describe(timings, name, shape, rounds=rounds, confidence=confidence) for name, shape in pairs)
    return tuple(one for one in found if one is not None)


def _describe(
    timings: Mapping[str, NDArray[Any]], name: str, shape: str, *, rounds: int, confidence: float
) -> PercentilesRecord | None:
    """Return the percentiles of one entrant at one shape; None with too few launches or incomplete ones."""
    launches = list(_split_launches(timings, f"confirm/{name}/{shape}", rounds))
    if len(launches) < _FEWEST:
        return None
    fewest = min(map(len, launches))
    intervals: dict[str, Interval] = {}
    for field, (percent, needed) in _LEVELS.items():
        if fewest >= needed:
            values = [float(np.percentile(calls, percent)) / 1e6 for calls in launches]
            intervals[field] = interval_of_ratios(values, confidence=confidence)
    return PercentilesRecord(id=name, shape=shape, launches=len(launches), fewest_calls=fewest, **intervals)


def _split_launches(timings: Mapping[str, NDArray[Any]], key: str, rounds: int) -> Iterator[NDArray[Any]]:
    """Yield the times of the calls of each launch, in nanoseconds; nothing if the rounds do not make whole launches."""
    if key not in timings:
        return
    calls = timings[f"{key}/calls"]
    if len(calls) % rounds:
        return
    ends = np.cumsum(calls.reshape(-1, rounds).sum(axis=1))
    yield from np.split(timings[key], ends[:-1])
