"""Metrics that are functions of sums over rows, so that a resample only costs a sum."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from .arrays import Array, Arrays

Tally = Callable[[Any, Arrays, dict[str, Any]], Array]
Total = Callable[[Array, dict[str, Any]], float]


@dataclass(frozen=True, kw_only=True)
class RowMetric:
    """An additional metric of a program (a value of its ``METRICS``): the mean of one number for each row."""

    score: Callable[[Any, Arrays, dict[str, Any]], Array]
    HIGHER_IS_BETTER: bool = True

    def metric(self, predictions: Any, targets: Arrays, options: dict[str, Any]) -> float:
        """Return the mean over the rows."""
        return float(self.score(predictions, targets, options).mean())


@dataclass(frozen=True, kw_only=True)
class SumMetric:
    """An additional metric of a program (a value of its ``METRICS``): ``total`` of the sums of ``tally`` over the rows.

    Attributes:
        tally: Returns the numbers of each row.
        total: Computes the metric from their sums.
        HIGHER_IS_BETTER: Its direction.
        NEEDS: Modules that it imports, each with its package for pip.
    """

    tally: Tally
    total: Total
    HIGHER_IS_BETTER: bool = True
    NEEDS: Mapping[str, str] = field(default_factory=dict)

    def score(self, predictions: Any, targets: Arrays, options: dict[str, Any]) -> None:
        """Return None: the metric is not a mean over rows."""

    def metric(self, predictions: Any, targets: Arrays, options: dict[str, Any]) -> float:
        """Return the metric of all rows."""
        return self.total(self.tally(predictions, targets, options).sum(axis=0), options)


def measure_f1(right: float, predicted: float, wanted: float) -> float:
    """Return the harmonic mean of precision and recall; 0 if there is nothing to predict."""
    return float(2 * right / (predicted + wanted)) if predicted + wanted else 0.0


def measure_share(right: float, count: float) -> float:
    """Return the share of right predictions.

    Raises:
        ValueError: There is nothing to predict.
    """
    if not count:
        raise ValueError("no row has anything to predict")
    return float(right / count)


def soften(scores: Array) -> Array:
    """Return the log-sum-exp along the last axis; in float64, row by row."""
    sums = np.empty(scores.shape[:-1], dtype=np.float64)
    for row, each in enumerate(scores):
        wide = each.astype(np.float64)
        most = wide.max(axis=-1)
        sums[row] = most + np.log(np.exp(wide - most[..., None]).sum(axis=-1))
    return sums
