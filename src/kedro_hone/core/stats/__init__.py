"""Everything statistical, as pure functions: numbers in, intervals and verdicts out.

Who measures does not judge: nothing here starts a process, reads a clock or draws a random number. A ``confidence`` is
a two-sided level, such as 0.95, strictly between 0 and 1: any other raises a ``ValueError``. The error rates that
are promised are measured by ``benchmarks/error_rates.py`` and kept by ``tests/unit/core/stats/test_error_rates.py``.
"""

from __future__ import annotations

from kedro_hone.core.stats.intervals import UNITS, interval_of_bootstrap, interval_of_mean, interval_of_ratios
from kedro_hone.core.stats.levels import correct_for_looks, share_level
from kedro_hone.core.stats.plan import LOOKS, Finding, LaunchPlan, LaunchStep, check_looks, next_step
from kedro_hone.core.stats.proportions import (
    interval_of_paired_proportions,
    needed_rows,
    provable,
    smallest_provable_drop,
)
from kedro_hone.core.stats.speed import (
    Faster,
    Percentiles,
    combine_shapes,
    find_dropped,
    find_noise_floor,
    is_faster,
    percentiles,
    ratio_in_launch,
)

__all__ = [
    "LOOKS",
    "UNITS",
    "Faster",
    "Finding",
    "LaunchPlan",
    "LaunchStep",
    "Percentiles",
    "check_looks",
    "combine_shapes",
    "correct_for_looks",
    "find_dropped",
    "find_noise_floor",
    "interval_of_bootstrap",
    "interval_of_mean",
    "interval_of_paired_proportions",
    "interval_of_ratios",
    "is_faster",
    "needed_rows",
    "next_step",
    "percentiles",
    "provable",
    "ratio_in_launch",
    "share_level",
    "smallest_provable_drop",
]
