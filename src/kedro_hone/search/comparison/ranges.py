"""The ranges of inputs in a recipe: probes stay inside."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hone_runtime.errors import HoneError
from hone_runtime.text import suggest
from hone_runtime.values.artifact import TensorSpec
from kedro_hone.search.comparison.probes import Arrays, Probe

Ranges = Mapping[str, tuple[float, float]]
"""By the name of an input: the least and the largest number in the model's domain."""


def check_ranges(inputs: Sequence[TensorSpec], ranges: Ranges) -> None:
    """Check that each range belongs to a numeric input with a type that can represent both ends.

    Raises:
        HoneError: ``recipe-invalid``.
    """
    known = {spec.name: dtype for spec in inputs if (dtype := _find_dtype(spec)) is not None}
    for name, ends in ranges.items():
        if name not in known:
            raise HoneError(
                "recipe-invalid",
                f"The recipe has a range for {name!r}, which is not an input of numbers.",
                why=f"Inputs of numbers are: {', '.join(sorted(known)) or 'none'}.",
                hint=f"{suggest(name, sorted(known))}Correct hone.model.ranges.",
            )
        if wrong := [end for end in ends if not _fits_dtype(end, known[name])]:
            least, largest = _find_ends(known[name])
            kind = "whole numbers" if known[name].kind in "iu" else "numbers"
            raise HoneError(
                "recipe-invalid",
                f"The recipe has a range for {name!r} with an end that the input cannot be: {wrong[0]:g}.",
                why=f"It is of the type {known[name]}, which has {kind} from {least:g} to {largest:g}.",
                hint="Correct hone.model.ranges; or leave the range out where the model takes all of its type.",
            )


def confine(probes: Sequence[Probe], base: Arrays, ranges: Ranges, *, seed: int) -> list[Probe]:
    """Return the probes within the ranges, and one more for each range, with numbers from end to end.

    Args:
        probes: The probes made without the ranges.
        base: Rows of a split.
        ranges: By the name of an input, the least and the largest number; already checked.
        seed: The seed of the random numbers.
    """
    random, kept = np.random.default_rng(seed), [probe for probe in probes if _is_within(probe.feeds, base, ranges)]
    for name, (low, high) in ranges.items():
        drawn = _draw(random, low, high, base[name])
        drawn.flat[:2] = np.array([low, high], drawn.dtype)[: drawn.size]
        feeds = {**base, name: drawn}
        kept.append(Probe(name=f"{name} of {low:g} to {high:g}", feeds=feeds, group=f"{name} within its range"))
    return kept


def _draw(random: np.random.Generator, low: float, high: float, like: NDArray[Any]) -> NDArray[Any]:
    if like.dtype.kind in "iu":
        return random.integers(int(low), int(high), like.shape, dtype=like.dtype.type, endpoint=True)
    share = random.random(like.shape)  # Generator.uniform raises if the distance of the ends is infinite
    return np.clip(low * (1 - share) + high * share, low, high).astype(like.dtype)


def _find_dtype(spec: TensorSpec) -> np.dtype[Any] | None:
    """Return the type of a numeric input; None for another one, or for a type that numpy does not have."""
    try:
        dtype = np.dtype(spec.dtype)
    except TypeError:
        return None
    return dtype if dtype.kind in "iuf" else None


def _find_ends(dtype: np.dtype[Any]) -> tuple[float, float]:
    if dtype.kind in "iu":
        return int(np.iinfo(dtype).min), int(np.iinfo(dtype).max)
    return float(np.finfo(dtype).min), float(np.finfo(dtype).max)


def _fits_dtype(end: float, dtype: np.dtype[Any]) -> bool:
    least, largest = _find_ends(dtype)
    return least <= end <= largest and (dtype.kind == "f" or end == int(end))


def _is_within(feeds: Arrays, base: Arrays, ranges: Ranges) -> bool:
    """Return whether no number is outside both its range and that of the rows from which a probe is made.

    NaN is in no range, but is a deliberate probe.
    """
    for name, (low, high) in ranges.items():
        rows = base[name][np.isfinite(base[name])] if base[name].dtype.kind == "f" else base[name]
        least, most = (min(low, rows.min()), max(high, rows.max())) if rows.size else (low, high)
        if ((feeds[name] < least) | (feeds[name] > most)).any():
            return False
    return True
