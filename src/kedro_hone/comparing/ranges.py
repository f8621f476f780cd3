"""The ranges of inputs that a recipe states: probes stay inside."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from kedro_hone.comparing.probes import Arrays, Probe
from kedro_hone.core.errors import HoneError
from kedro_hone.core.text import suggest

Ranges = Mapping[str, tuple[float, float]]
"""By the name of an input: the least and the largest number that the model is made for."""


def confine(probes: Sequence[Probe], base: Arrays, ranges: Ranges, *, seed: int) -> list[Probe]:
    """Return the probes whose numbers are within the ranges, and one more for each range: numbers from end to end.

    Args:
        probes: Those that were made without the ranges.
        base: Rows of a split.
        ranges: By the name of an input, the least and the largest number that it is given.
        seed: Of the numbers that are drawn.

    Raises:
        HoneError: ``recipe-invalid``: a range is of no input, or of one without numbers.
    """
    for name in ranges:
        if name not in base or base[name].dtype.kind not in "iuf":
            known = sorted(other for other, array in base.items() if array.dtype.kind in "iuf")
            raise HoneError(
                "recipe-invalid",
                f"The recipe has a range for {name!r}, which is no input of numbers.",
                why=f"Inputs of numbers are: {', '.join(known) or 'none'}.",
                hint=f"{suggest(name, known)}Mend model.ranges in the recipe.",
            )
    random, kept = np.random.default_rng(seed), [probe for probe in probes if _is_within(probe.feeds, ranges)]
    for name, (low, high) in ranges.items():
        drawn = random.uniform(low, high, base[name].shape)
        drawn.flat[:2] = [low, high][: drawn.size]
        made = np.rint(drawn) if base[name].dtype.kind in "iu" else drawn
        feeds = {**base, name: made.astype(base[name].dtype)}
        kept.append(Probe(name=f"{name} of {low:g} to {high:g}", feeds=feeds, group=f"{name} within its range"))
    return kept


def _is_within(feeds: Arrays, ranges: Ranges) -> bool:
    """Return whether no number is outside its range; NaN is in none, and is asked of a source by design."""
    return all(not ((feeds[name] < low) | (feeds[name] > high)).any() for name, (low, high) in ranges.items())
