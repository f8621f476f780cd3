"""What is wrong with a source model that is no function of each row, by its own trials, before anything is built."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from kedro_hone.comparing.arrays import read_arrays
from kedro_hone.comparing.differences import Difference, find_first
from kedro_hone.comparing.scoring import Run
from kedro_hone.comparing.setting import Setting
from kedro_hone.comparing.source_company import COARSE, COMPANY, check_company, is_quantized
from kedro_hone.comparing.source_trials import Outputs, SourceTrials, Trial, mask_padding, run_trials
from kedro_hone.core.errors import HoneError
from kedro_hone.core.values.artifact import Artifact
from kedro_hone.core.values.base import CPU

_AGAIN: Final = 1e-5
"""What the same call may return else, over an output's largest value: on one machine next to nothing, in fp32."""
_ELSEWHERE: Final = 1e-4
"""The same of another process, whose memory is aligned otherwise."""


def check_trials_rows(trials: Iterable[Trial], setting: Setting) -> None:
    """Check what trials returned, as ``check_rows`` does; of one row alone only where the recipe has such a shape."""
    single = any(shape.batch == 1 for shape in setting.recipe.all_shapes)
    for trial in trials:
        if single or trial.batch > 1:
            check_rows(trial.read(), setting.source, count=len(trial.places), batch=trial.batch)


def check_source(trials: SourceTrials, run: Run, setting: Setting) -> tuple[str, ...]:
    """Run the source again in a process of its own, compare, and return what is odd, one sentence each.

    ``run`` is that of the whole search split, whose outputs are there.

    Raises:
        HoneError: ``source-not-rowwise``, ``source-random``, ``source-stateful``, ``source-mixes-rows`` or
            ``source-not-finite``.
    """
    source, (feeds, outputs, batch) = setting.source, run
    whole, rows = read_arrays(outputs), read_arrays(feeds)
    check_rows(whole, source, count=len(next(iter(rows.values()))), batch=batch)
    run_trials((*trials.again, *trials.others), setting)
    check_trials_rows((*trials.again, *trials.others), setting)
    whole = mask_padding(whole, rows, source)
    check_repeated(trials, source)
    return (*check_company(trials, whole, source), *check_finite(whole))


def check_rows(outputs: Mapping[str, NDArray[Any]] | None, source: Artifact, *, count: int, batch: int) -> None:
    """Check that what the source returned for so many rows, in calls of a batch, has a row for each of them.

    Raises:
        HoneError: ``source-not-rowwise``.
    """
    declared = {spec.name: spec.shape for spec in source.outputs}
    for name, array in (outputs or {}).items():
        if array.ndim == 0 or len(array) != count:
            raise _explain_rows(name, array.shape, declared.get(name, ()), count=count, batch=batch)


def check_repeated(trials: SourceTrials, source: Artifact) -> None:
    """Check that the source returned the same for the same rows, in one process and in another.

    Raises:
        HoneError: ``source-stateful`` where a process repeats what the other one did, call by call; else
            ``source-random``.
    """
    bound = _AGAIN if source.device == CPU else COMPANY
    calls = [(one, other) for one, other in (trials.first, trials.again)]
    changed = next(filter(None, (_compare(*pair, source, bound=bound) for pair in calls)), None)
    pairs = list(zip(trials.first, trials.again, strict=True))
    elsewhere = bound if changed else COARSE if is_quantized(source) else max(bound, _ELSEWHERE)
    differs = next(filter(None, (_compare(*pair, source, bound=elsewhere) for pair in pairs)), None)
    if differs is not None:
        found, words = (changed, ("at first", "in the next call")) if changed else (differs, _PROCESSES)
        raise HoneError(
            "source-random",
            "The source model is random: the same rows give something else each time.",
            why=found.describe(*words),
            hint="Switch off at inference what draws numbers (dropout with training=self.training, noise), or return "
            "the mean in place of a draw; then save the model again.",
        )
    if changed is not None:
        raise HoneError(
            "source-stateful",
            "The source model remembers its calls: the same rows give something else in the next call.",
            why=f"{changed.describe('at first', 'in the next call')} A new process repeats this, so it is not random.",
            hint="Let its state be an input and an output of the model, or reset it at each call; switch off dropout "
            "and noise, whose generator it may keep. Then save the model again.",
        )


_PROCESSES: Final = ("in one process", "in another with another seed")


def check_finite(whole: Outputs) -> Iterator[str]:
    """Yield a warning for each output of the whole search split with numbers that are not finite.

    Raises:
        HoneError: ``source-not-finite``: there is no other number in any output.
    """
    floats = {name: array.reshape(len(array), -1) for name, array in whole.items() if array.dtype.kind in "fc"}
    if floats and len(floats) == len(whole) and not any(np.isfinite(array).any() for array in floats.values()):
        named = ", ".join(map(repr, floats))
        raise HoneError(
            "source-not-finite",
            "The source model returns no finite number.",
            why=f"All numbers of {named} are NaN or infinite, in all rows of the search split.",
            hint="Compare the data with what the model was trained on, such as their scale; of fp16 take fp32 or bf16.",
        )
    for name, array in floats.items():
        odd = ~np.isfinite(array)
        if not odd.any():
            continue
        kinds = {"NaN": np.isnan(array), "-inf": array == -np.inf, "inf": array == np.inf}
        told = ", ".join(f"{kind} in {mask.any(axis=1).sum()}" for kind, mask in kinds.items() if mask.any())
        lost = int(odd.all(axis=1).sum())
        lost_said = f"; {lost} have no finite number" if lost else ""
        yield (
            f"the source's output {name!r} is not finite in {odd.any(axis=1).sum()} of {len(array)} rows ({told})"
            f"{lost_said}: a candidate is right there where it returns the same"
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


def _compare(one: Trial, other: Trial, source: Artifact, *, bound: float) -> Difference | None:
    """Compare two trials of the same rows, in the same order."""
    before, after = one.read_real(source), other.read_real(source)
    return find_first(before, after, places=one.places, bounds=dict.fromkeys(before, bound))
