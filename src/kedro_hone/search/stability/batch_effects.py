"""Whether a source model's result for a row depends on the other rows of its batch, by its trials."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from hone_runtime.errors import HoneError
from hone_runtime.values.artifact import Artifact
from kedro_hone.programs.shared.parts import measure_smallest_scales
from kedro_hone.search.comparison.differences import Discrepancy, Tolerance, find_first, measure_errors
from kedro_hone.search.comparison.quantization import rounds_values
from kedro_hone.search.stability.trials import Outputs, SourceTrials, Trial

BATCH_CHANGE: Final = 1e-3
"""The allowed change in another batch, relative to an output's largest value: kernels may add in another order."""
COARSE: Final = 0.1
"""The same if activations are quantized by the range of the batch."""
_HALF: Final = 0.05
"""The same for outputs with only half-precision numbers, whatever their type."""
_FLOOR: Final = 10
"""How many times the rounding of one row, alone and among its copies, counts as rounding for any row."""
_ROWS: Final = 0.1
"""The share of rows that must differ: routing or quantization near a threshold may change a few."""
_WAYS: Final = {"turned": "in another order among other rows", "alone": "by itself"}


def check_batch_effects(trials: SourceTrials, sample: Outputs, source: Artifact, noise: Outputs) -> Iterator[str]:
    """Check that the source's result for a row does not depend on the other rows of its batch.

    All trials must have run; ``sample`` are its outputs on the whole search split for the rows of the first trial, and
    ``noise`` is that of ``find_noise``. Yields a warning if the source quantizes by the range of a batch, and so mixes
    its rows slightly.

    Raises:
        HoneError: ``source-mixes-rows``.
    """
    allowed = Tolerance(bounds=_find_bounds(trials, source, noise), noise=noise, least=_ROWS)
    if found := _find_difference(trials, sample, source, allowed):
        raise explain_mixing(found)
    fine = replace(allowed, bounds=dict.fromkeys(allowed.bounds, BATCH_CHANGE))
    if rounds_values(source) and (found := _find_difference(trials, sample, source, fine)):
        yield f"the source quantizes, and its output for a row depends slightly on the other rows of the batch: {found}"


def explain_mixing(found: str) -> HoneError:
    """Return the error for a source that mixes its rows, with the evidence in one sentence (``found``)."""
    return HoneError(
        "source-mixes-rows",
        "The source model mixes the rows of a batch: its output for one row depends on the others.",
        why=found,
        hint="Normalize by stored statistics, take means and softmax within each row, and put the rows on the "
        "first axis (batch_first=True); then save the model again.",
    )


def find_noise(trials: SourceTrials, source: Artifact) -> Outputs:
    """Return which numbers of a row have the rounding error of larger ones, by output, in the shape of a row.

    They differ on their own scale, but hardly on the scale of the whole output, between a row alone and the same row
    among copies of itself, which mixes nothing. If that could not be tested, all numbers are marked.
    """
    alone, copies = _read_copies(trials, source)
    found: Outputs = {}
    for name, array in trials.again[0].read_real(source).items():
        everywhere = np.ones(array.shape[1:], bool)
        one, other = alone.get(name), copies.get(name)
        if one is None or other is None or one.shape != other.shape or one.dtype.kind not in "fc" or not one.size:
            found[name] = everywhere
            continue
        with np.errstate(invalid="ignore"):
            apart = np.nan_to_num(np.abs(one - other).astype(np.float64), posinf=0.0).max(axis=0)
        own = apart / measure_smallest_scales(np.abs(array) if array.dtype.kind == "c" else array)
        whole = measure_errors(one, other, noise=everywhere).max(axis=0).reshape(array.shape[1:])
        found[name] = (own > BATCH_CHANGE) & (whole <= BATCH_CHANGE)
    return found


def choose_bound(output: NDArray[Any], source: Artifact) -> float:
    """Return the allowed change of an output in another batch, relative to the unit of its part."""
    return COARSE if rounds_values(source) else _HALF if _is_half(output) else BATCH_CHANGE


def _find_difference(trials: SourceTrials, sample: Outputs, source: Artifact, allowed: Tolerance) -> str | None:
    """Return in one sentence where rows differ in another batch, or None."""
    first, ways = trials.again[0], [(trial, _WAYS[trial.name]) for trial in trials.others if trial.name in _WAYS]
    whole = find_first(first.read_real(source), sample, places=first.places, tolerance=allowed)
    found = [("among all rows", whole), *((way, _compare(first, trial, source, allowed)) for trial, way in ways)]
    where = "alone" if first.batch == 1 else f"in a batch of {first.batch}"
    return next((one.describe(where, way) for way, one in found if one), None)


def _compare(first: Trial, trial: Trial, source: Artifact, allowed: Tolerance) -> Discrepancy | None:
    """Compare the rows that two trials share."""
    where = {place: number for number, place in reversed(list(enumerate(first.places)))}
    shared = [(where[place], number) for number, place in enumerate(trial.places) if place in where]
    here, there = ([pair[side] for pair in shared] for side in (0, 1))
    one = {name: array[here] for name, array in first.read_real(source).items()}
    other = {name: array[there] for name, array in trial.read_real(source).items() if len(array) > max(there)}
    return find_first(one, other, places=[first.places[number] for number in here], tolerance=allowed)


def _find_bounds(trials: SourceTrials, source: Artifact, noise: Outputs) -> dict[str, float]:
    """Return the allowed difference of each output in another batch: larger if the model itself computes coarsely.

    Its precision is shown by its numbers, by its operators, and by rows among copies of themselves, which mixes
    nothing.
    """
    base = trials.again[0].read_real(source)
    if rounds_values(source):
        return dict.fromkeys(base, COARSE)
    alone, copies = _read_copies(trials, source)
    floors = {name: _measure_floor(alone.get(name), copies.get(name), noise[name]) for name in base}
    return {name: min(COARSE, max(choose_bound(base[name], source), _FLOOR * floor)) for name, floor in floors.items()}


def _read_copies(trials: SourceTrials, source: Artifact) -> tuple[Outputs, Outputs]:
    """Return the source's results for some rows alone, repeated, and among copies of themselves, if known."""
    found = {trial.name: trial for trial in trials.others}
    if not {"alone", "copies"} <= found.keys():
        return {}, {}
    alone, copies = (found[name].read_real(source) for name in ("alone", "copies"))
    places = found["alone"].places
    which = [places.index(place) for place in found["copies"].places]
    return {name: array[which] for name, array in alone.items() if len(array) == len(places)}, copies


def _is_half(array: NDArray[Any]) -> bool:
    """Return whether all numbers of an output are those of fp16 or of bfloat16 (the upper half of fp32's bits)."""
    if array.dtype == np.float16:
        return True
    if array.dtype != np.float32:
        return False
    halved = (np.ascontiguousarray(array).view(np.uint32) & 0xFFFF) == 0
    with np.errstate(over="ignore"):
        return bool(halved.all() or (array.astype(np.float16) == array).all())


def _measure_floor(alone: NDArray[Any] | None, copies: NDArray[Any] | None, noise: NDArray[Any]) -> float:
    if alone is None or copies is None or alone.shape != copies.shape or alone.dtype.kind not in "fc":
        return 0.0
    return float(measure_errors(alone, copies, noise=noise).max(initial=0.0))
