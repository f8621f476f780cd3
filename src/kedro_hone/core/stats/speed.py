"""Speed: percentiles of calls, ratios of launches, and the decisions from them: faster or not, dropped or not."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from enum import StrEnum
from typing import Final

import numpy as np
from numpy.typing import NDArray

from hone_runtime.values.measurement import P99_FROM, Interval, Latency
from kedro_hone.core.stats.intervals import Floats, check_positive

_P90_FROM: Final = 64


class Faster(StrEnum):
    """Whether a candidate is faster than the source by the threshold."""

    YES = "yes"
    NO = "no"
    UNDECIDED = "undecided"


def percentiles(shape: str, ns: Sequence[int]) -> Latency:
    """The percentiles of the times of calls at a shape, in nanoseconds, as far as there are enough samples.

    From 64 samples the probability that all of them are under the true 90th percentile is near 1 in 1,000; the same
    holds for 662 samples and the 99th. With fewer, the samples would too often not contain the tail at all.

    Raises:
        ValueError: No samples.
    """
    n = len(ns)
    if n == 0:
        raise ValueError("percentiles need one sample at least")
    p50, p90, p99 = (float(value) / 1e6 for value in np.percentile(np.asarray(ns), (50, 90, 99)))
    p90_ms, p99_ms = p90 if n >= _P90_FROM else None, p99 if n >= P99_FROM else None
    return Latency(shape=shape, n=n, p50_ms=p50, p90_ms=p90_ms, p99_ms=p99_ms)


def find_noise_floor(control: Interval) -> float:
    """How fast the source can appear against itself (A/A) by chance alone: the upper end over the estimate, at least 1.

    Raises:
        ValueError: An estimate that is not positive.
    """
    if not control.estimate > 0:
        raise ValueError(f"a ratio of times is positive, not {control.estimate!r}")
    return max(1.0, control.high / control.estimate)


def is_faster(speed: Interval, *, noise_floor: float, threshold: float) -> Faster:
    """Whether the interval of source time over candidate time is on one side of the threshold, such as 1.05.

    A yes must remain true after division by the noise floor; a no follows from the interval alone. Both are proof: each
    is wrong at most as often as the level allows, a yes far less often (``benchmarks/error_rates.py``). Anything in
    between is undecided.

    Raises:
        ValueError: A noise floor below 1 or a threshold that is not positive.
    """
    if not (noise_floor >= 1 and threshold > 0):
        raise ValueError(f"no noise floor and threshold: {noise_floor!r}, {threshold!r}")
    if speed.low / noise_floor >= threshold:
        return Faster.YES
    return Faster.NO if speed.high < threshold else Faster.UNDECIDED


def ratio_in_launch(source: Sequence[float], candidate: Sequence[float]) -> float:
    """The speed-up in one launch, source over candidate: the median of the ratios of its rounds.

    Not the ratio of two medians over rounds. The speed of a shared machine can change by half within a second. Within a
    round this affects both alike and cancels in their ratio. But the median round of one may be in a fast phase, and
    that of the other in a slow one. Both need one time for each of the same rounds, in any unit.

    Raises:
        ValueError: No rounds, unequal numbers, or a time that is not positive and finite.
    """
    first, second = check_positive(source, "times"), check_positive(candidate, "times")
    if first.size == 0 or first.shape != second.shape:
        raise ValueError(f"rounds come in pairs, not {first.size} of the source and {second.size} of the candidate")
    return float(np.exp(np.median(np.log(first / second))))


def find_dropped(intervals: Mapping[str, Interval], *, keep: int) -> set[str]:
    """The ids of candidates that cannot win any more: their interval is entirely below the leader's.

    The leader has the highest lower end (Maron and Moore 1994, *Hoeffding races*). The best ``keep`` candidates by
    lower end, the finalists of ``confirm``, are never dropped, whatever their intervals are.

    Raises:
        ValueError: A negative number to keep.
    """
    if keep < 0:
        raise ValueError(f"the number to keep is not negative, not {keep}")
    order = sorted(intervals, key=lambda name: (-intervals[name].low, -intervals[name].estimate, name))
    return {name for name in order[keep:] if intervals[name].high < intervals[order[0]].low}


def combine_shapes(
    ratios: Mapping[str, Floats],
    objective: str,
    weights: Mapping[str, float] | None = None,
    *,
    shapes: Collection[str] = (),
) -> NDArray[np.float64]:
    """Combine the ratios at several shapes, one for each round or launch, into one objective.

    ``worst`` takes all ratios of the shape with the lowest geometric mean, of some ``shapes`` or of all: the lowest of
    each round would, by noise alone, be lower than the true ratio of any shape. ``mean`` is the geometric mean in each
    round (ratios are averaged by their logarithms: Fleming and Wallace 1986, *Commun. ACM* 29:218-221), with the
    weights of the shapes (their sum does not matter); by default equal weights. Any other objective is the name of a
    shape.

    Raises:
        ValueError: No shapes, an unknown objective, a ratio that is not positive and finite, or weights that do not
            fit.
    """
    arrays = {shape: check_positive(values, f"ratios at the shape {shape}") for shape, values in ratios.items()}
    if not (arrays and all(array.size for array in arrays.values())):
        raise ValueError("every shape needs ratios")
    if objective == "worst":
        counted = [array for shape, array in arrays.items() if shape in (shapes or arrays)]
        return min(counted, key=lambda array: float(np.log(array).mean()))
    if objective == "mean":
        return _average(arrays, weights)
    if objective not in arrays:
        raise ValueError(f"the objective is worst, mean or one of {', '.join(arrays)}, not {objective!r}")
    return arrays[objective]


def _average(arrays: Mapping[str, NDArray[np.float64]], weights: Mapping[str, float] | None) -> NDArray[np.float64]:
    chosen = dict.fromkeys(arrays, 1.0) if weights is None else dict(weights)
    if set(chosen) != set(arrays) or min(chosen.values()) < 0 or not sum(chosen.values()) > 0:
        raise ValueError(f"weights are not negative and name every shape once: {', '.join(arrays)}")
    if len({array.shape for array in arrays.values()}) > 1:
        raise ValueError("the mean over shapes needs the same number of ratios at each")
    total = sum(chosen.values())
    return np.asarray(np.exp(sum((chosen[shape] / total * np.log(array) for shape, array in arrays.items()), 0.0)))
