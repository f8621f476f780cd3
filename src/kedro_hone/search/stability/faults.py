"""Faults of a source model that is not a function of each row, by its own trials, before anything is built."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from hone_runtime.errors import HoneError
from hone_runtime.values.artifact import Artifact
from hone_runtime.values.base import CPU
from hone_runtime.values.samples import SEARCH
from kedro_hone.search.comparison.arrays import open_arrays
from kedro_hone.search.comparison.crops import MASK
from kedro_hone.search.comparison.differences import Discrepancy, Tolerance, find_first
from kedro_hone.search.comparison.quantization import rounds_values
from kedro_hone.search.context import RunContext
from kedro_hone.search.scores import Run
from kedro_hone.search.stability.batch_effects import BATCH_CHANGE, COARSE, check_batch_effects, find_noise
from kedro_hone.search.stability.trials import Outputs, SourceTrials, Trial, mask_padding, run_trials

_AGAIN: Final = 1e-5
"""The allowed difference of the same call, relative to an output's largest value: in fp32 on one machine almost 0."""
_PART: Final = 256
"""Rows of an output that are checked together."""
_ELSEWHERE: Final = 1e-4
"""The same for another process with different memory alignment."""


def check_trials_rows(trials: Iterable[Trial], context: RunContext) -> None:
    """Check the results of trials as in ``check_rows``; single rows only if the recipe has such a shape."""
    single = any(shape.batch == 1 for shape in context.recipe.all_shapes)
    for trial in trials:
        if single or trial.batch > 1:
            check_rows(trial.read(), context.source, count=len(trial.places), batch=trial.batch)


def check_source(trials: SourceTrials, run: Run, context: RunContext) -> tuple[tuple[str, ...], Outputs]:
    """Run the source again in a separate process, compare, and return warnings, one sentence each.

    Also returns which numbers of a row have the rounding error of larger ones, as ``find_noise``. ``run`` is the
    completed run of the whole search split.

    Raises:
        HoneError: ``source-not-rowwise``, ``source-random``, ``source-stateful``, ``source-mixes-rows`` or
            ``source-not-finite``.
    """
    source = context.source
    split = context.samples.splits[SEARCH]
    sample, counts = _read_whole(run, source, places=trials.first[0].places, count=split.n)
    run_trials((*trials.again, *trials.others), context)
    check_trials_rows((*trials.again, *trials.others), context)
    noise = find_noise(trials, source)
    check_repeated(trials, source, noise)
    return (*check_batch_effects(trials, sample, source, noise), *check_finite(counts)), noise


def _read_whole(run: Run, source: Artifact, *, places: Sequence[int], count: int) -> tuple[Outputs, list[NotFinite]]:
    """Return some rows of a run's outputs, and counts of non-finite numbers in all rows; raises as ``check_rows``.

    Outputs may be as large as the memory, so they are read one at a time, and checked in parts.
    """
    feeds, outputs, batch = run
    sample, counts = Outputs(), list[NotFinite]()
    with open_arrays(feeds) as archive:
        rows = {name: archive[name] for name in archive.files if name == MASK}
    with open_arrays(outputs) as archive:
        for name in archive.files:
            array = archive[name]
            check_rows({name: array}, source, count=count, batch=batch)
            sample |= _take(name, array, list(places), rows=rows, source=source)
            parts = (slice(first, first + _PART) for first in range(0, count, _PART))
            masked = (_take(name, array, part, rows=rows, source=source)[name] for part in parts)
            counts.append(count_not_finite(name, masked))
    return sample, counts


def _take(name: str, array: NDArray[Any], part: slice | list[int], *, rows: Outputs, source: Artifact) -> Outputs:
    """Return some rows of an output, with 0 for tokens of padding."""
    return mask_padding({name: array[part]}, {key: value[part] for key, value in rows.items()}, source)


def check_rows(outputs: Mapping[str, NDArray[Any]] | None, source: Artifact, *, count: int, batch: int) -> None:
    """Check that the source's outputs for ``count`` rows, in calls of ``batch`` rows, have one row for each.

    Raises:
        HoneError: ``source-not-rowwise``.
    """
    declared = {spec.name: spec.shape for spec in source.outputs}
    for name, array in (outputs or {}).items():
        if array.ndim == 0 or len(array) != count:
            raise _explain_rows(name, array.shape, declared.get(name, ()), count=count, batch=batch)


def check_repeated(trials: SourceTrials, source: Artifact, noise: Outputs) -> None:
    """Check that the source returned the same for the same rows, in one process and in another.

    ``noise`` is that of ``find_noise``.

    Raises:
        HoneError: ``source-stateful`` if a process repeats the other one's results call by call; otherwise
            ``source-random``.
    """
    bound = _AGAIN if source.device == CPU else BATCH_CHANGE
    calls = [(one, other) for one, other in (trials.first, trials.again)]
    changed = next(filter(None, (_compare(*pair, source, bound=bound, noise=noise) for pair in calls)), None)
    pairs = list(zip(trials.first, trials.again, strict=True))
    elsewhere = bound if changed else COARSE if rounds_values(source) else max(bound, _ELSEWHERE)
    differs = next(filter(None, (_compare(*pair, source, bound=elsewhere, noise=noise) for pair in pairs)), None)
    if differs is not None:
        found, words = (changed, ("at first", "in the next call")) if changed else (differs, _PROCESSES)
        raise HoneError(
            "source-random",
            "The source model is random: the same rows give different outputs each time.",
            why=found.describe(*words),
            hint="Switch off randomness at inference (dropout with training=self.training, noise), or return "
            "the mean instead of a sample; then save the model again.",
        )
    if changed is not None:
        raise HoneError(
            "source-stateful",
            "The source model is stateful: the same rows give different outputs in the next call.",
            why=f"{changed.describe('at first', 'in the next call')} A new process repeats this, so it is not random.",
            hint="Let its state be an input and an output of the model, or reset it at each call; switch off dropout "
            "and noise, whose generator it may keep. Then save the model again.",
        )


_PROCESSES: Final = ("in one process", "in another with another seed")


@dataclass(frozen=True, kw_only=True)
class NotFinite:
    """How many rows of an output have numbers that are not finite; 0 for outputs without floating-point numbers."""

    output: str
    rows: int
    odd: int
    kinds: Mapping[str, int]  # rows with NaN, -inf and inf
    lost: int  # rows with no finite number


def count_not_finite(output: str, parts: Iterable[NDArray[Any]]) -> NotFinite:
    """Count them in the parts of an output, rows first."""
    rows = odd = lost = 0
    kinds = dict.fromkeys(("NaN", "-inf", "inf"), 0)
    for part in parts:
        table = part.reshape(len(part), -1)
        rows += len(table)
        if table.dtype.kind not in "fc" or not table.size:
            continue
        strange = ~np.isfinite(table)
        odd, lost = odd + int(strange.any(axis=1).sum()), lost + int(strange.all(axis=1).sum())
        if strange.any():
            masks = (np.isnan(table), table == -np.inf, table == np.inf)
            for kind, mask in zip(kinds, masks, strict=True):
                kinds[kind] += int(mask.any(axis=1).sum())
    return NotFinite(output=output, rows=rows, odd=odd, kinds=kinds, lost=lost)


def check_finite(counts: Sequence[NotFinite]) -> Iterator[str]:
    """Yield a warning for each output with numbers that are not finite, from the counts.

    Raises:
        HoneError: ``source-not-finite``: no output has a finite number.
    """
    if counts and all(one.lost == one.rows for one in counts):
        named = ", ".join(repr(one.output) for one in counts)
        raise HoneError(
            "source-not-finite",
            "The source model returns no finite number.",
            why=f"All numbers of {named} are NaN or infinite, in all rows of the search split.",
            hint="Compare the data with what the model was trained on, such as their scale; of fp16 take fp32 or bf16.",
        )
    for one in counts:
        if one.odd:
            counted = ", ".join(f"{kind} in {rows}" for kind, rows in one.kinds.items() if rows)
            lost = f"; {one.lost} have no finite number" if one.lost else ""
            yield (
                f"the source's output {one.output!r} is not finite in {one.odd} of {one.rows} rows ({counted}){lost}: "
                "a candidate must return the same values there"
            )


def _explain_rows(
    name: str, shape: tuple[int, ...], declared: Sequence[int | str], *, count: int, batch: int
) -> HoneError:
    calls = -(-count // batch)
    axes = [axis for axis, dim in enumerate(declared) if axis and dim == "batch"]
    if not axes and len(shape) > 1:
        axes = [axis for axis, size in enumerate(shape) if axis and size == batch]
    why = f"For {count} rows in {calls} call{'s' * (calls > 1)} its shape is {shape}"
    if not shape:
        why, hint = f"{why}: one number for all of them.", "Leave it out of what the model returns."
    elif len(axes) == 1:
        why = f"{why}: the rows are on axis {axes[0]}."
        hint = f"Let the model return it with the rows first, such as {name}.movedim({axes[0]}, 0)."
    else:
        why += "; a comparison needs one entry for each row."
        hint = "Let the model return an array with a row for each row, filled up where rows have different numbers of "
        hint += "results; or leave the output out."
    return HoneError(
        "source-not-rowwise",
        f"Output {name!r} of the source model has no row for each row of its input.",
        why=why,
        hint=f"{hint} Then save the model again.",
    )


def _compare(one: Trial, other: Trial, source: Artifact, *, bound: float, noise: Outputs) -> Discrepancy | None:
    """Compare two trials of the same rows, in the same order."""
    before, after = one.read_real(source), other.read_real(source)
    return find_first(
        before, after, places=one.places, tolerance=Tolerance(bounds=dict.fromkeys(before, bound), noise=noise)
    )
