"""Speed: percentiles of calls, the noise floor, and whether a candidate is faster: yes, no or undecided."""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from typing import NamedTuple

import numpy as np

from kedro_hone.core.values.measurement import Interval

_P90_FROM, _P99_FROM = 64, 662


class Faster(StrEnum):
    """Whether a candidate is faster than the source by the threshold."""

    YES = "yes"
    NO = "no"
    UNDECIDED = "undecided"


class Percentiles(NamedTuple):
    """The times of n calls in milliseconds, named as in ``core.measurement.Latency``; None where n is too few."""

    p50_ms: float
    n: int
    p90_ms: float | None
    p99_ms: float | None


def percentiles(ns: Sequence[int]) -> Percentiles:
    """The percentiles for which there are enough samples.

    From 64 samples the chance that all of them are under the true 90th percentile is near 1 in 1,000; so is that of 662
    samples and the 99th. With fewer, the number would too often not contain the tail at all.

    Args:
        ns: One time for each call, in nanoseconds.

    Raises:
        ValueError: No samples.
    """
    n = len(ns)
    if n == 0:
        raise ValueError("percentiles need one sample at least")
    p50, p90, p99 = (float(value) / 1e6 for value in np.percentile(np.asarray(ns), (50, 90, 99)))
    return Percentiles(p50, n, p90 if n >= _P90_FROM else None, p99 if n >= _P99_FROM else None)


def find_noise_floor(control: Interval) -> float:
    """How fast the source can seem against itself by chance alone.

    It is the upper end over the estimate of the source's ratio to itself (A/A), and 1 at least.

    Raises:
        ValueError: An estimate that is not positive.
    """
    if not control.estimate > 0:
        raise ValueError(f"a ratio of times is positive, not {control.estimate!r}")
    return max(1.0, control.high / control.estimate)


def is_faster(speed: Interval, *, noise_floor: float, threshold: float) -> Faster:
    """Whether the interval is on one side of the threshold.

    A yes must hold after division by the noise floor; a no is given by the interval alone. Both are proof: each errs at
    most as often as the level allows, a yes far less often (``benchmarks/error_rates.py``). In between is undecided.

    Args:
        speed: Source time over candidate time.
        noise_floor: From ``find_noise_floor``.
        threshold: The speed-up that is asked for, such as 1.05.

    Raises:
        ValueError: A noise floor below 1 or a threshold that is not positive.
    """
    if not (noise_floor >= 1 and threshold > 0):
        raise ValueError(f"no noise floor and threshold: {noise_floor!r}, {threshold!r}")
    if speed.low / noise_floor >= threshold:
        return Faster.YES
    return Faster.NO if speed.high < threshold else Faster.UNDECIDED
