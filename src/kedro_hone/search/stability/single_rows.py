"""Whether the source itself returns different results for single rows for which a converted candidate differs.

The trials before the search run sixteen rows. They may miss rows that rarely mix; for these an exact candidate differs
from the reference, since its batches differ. So before it is dropped, the source is run again on those rows.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from hone_runtime.values.samples import SEARCH, Reference
from kedro_hone.search.comparison.answers import Answers, list_varying, replace_rows
from kedro_hone.search.comparison.arrays import open_arrays, read_arrays
from kedro_hone.search.comparison.crops import MASK
from kedro_hone.search.comparison.differences import find_discrepancy, measure_errors
from kedro_hone.search.context import RunContext
from kedro_hone.search.stability.batch_effects import choose_bound, explain_mixing
from kedro_hone.search.stability.trials import Trial, find_only_batch, mask_padding, run_trials, write_rows

MOST_ROWS: Final = 16
"""If more rows differ, none of them is excused."""
_COPIED: Final = 4
"""This many of them are run among copies of themselves."""
_REPEATED: Final = 3
"""If at least this many of these, and more than half, differ there, a step is not the reason."""
_COMPANIES: Final = 4
"""A row that differs there is run among copies of this many other rows."""


@dataclass(frozen=True, kw_only=True)
class Unsteady:
    """Rows of the search split for which the source is not consistent with itself.

    Attributes:
        answers: The source's other results for them, by output, only for outputs that differ. Empty if too many rows
            differ to be excused.
        in_calls: The rows that differ in the calls in which the candidate got them.
        among_copies: The rows that differ among copies of themselves: they are at a step of the source.
    """

    answers: Mapping[str, Answers] = field(default_factory=dict)
    in_calls: tuple[int, ...] = ()
    among_copies: tuple[int, ...] = ()


def find_unsteady(places: Sequence[int], *, batch: int, context: RunContext, reference: Reference) -> Unsteady:
    """Return those of some rows of the search split for which the source differs from itself in other batches.

    Routing or rounding near a threshold may change in other batches, and no candidate is wrong there.

    Args:
        places: The rows, at which a candidate differs from the reference.
        batch: The rows of the candidate's calls.
        context: The run's.
        reference: The source's outputs.

    Returns:
        Empty if the reference has calls of the same rows, or if more rows than ``MOST_ROWS`` differ.

    Raises:
        HoneError: ``source-mixes-rows``: rows differ among copies of themselves, in a call of as many rows, and most
            do, or their results vary with the other rows of the batch.
    """
    if batch == context.largest_batch or find_only_batch(context) is not None:
        return Unsteady()
    with context.store.workspace() as folder:
        copies = [_plan_copies(place, context, folder) for place in places[:_COPIED]]
        calls = _plan_calls(places, batch, context, folder) if len(places) <= MOST_ROWS else None
        trials = [*copies, calls] if calls else copies
        write_rows(trials, context.locate(context.samples.splits[SEARCH].feeds))
        run_trials(trials, context)
        steps: dict[str, Answers] = {}
        others: dict[str, Answers] = {}
        for name, due, noise in _read_reference(context, reference):
            steps[name] = _check_copies(name, due, copies, context)
            differing = _list_differing(name, due, calls, context, noise=noise) if calls else {}
            others[name] = {place: [row] for place, row in differing.items() if place in places}
    joined = {name: _join(steps[name], others[name]) for name in steps} if calls else {}
    return Unsteady(
        answers={name: answers for name, answers in joined.items() if answers},
        in_calls=_list_places(others),
        among_copies=_list_places(steps),
    )


def _read_reference(
    context: RunContext, reference: Reference
) -> Iterator[tuple[str, NDArray[Any], NDArray[Any] | None]]:
    """Yield each output of the reference with its noise, and with 0 for padding; one by one: each may be large."""
    with open_arrays(context.locate(context.samples.splits[SEARCH].feeds)) as archive:
        feeds = {name: archive[name] for name in archive.files if name == MASK}
    noisy = context.locate_noise(reference)
    noise = {} if noisy is None else read_arrays(noisy)
    with open_arrays(context.store.locate_tree(reference.digest) / reference.outputs) as archive:
        for name in archive.files:
            yield name, mask_padding({name: archive[name]}, feeds, context.source)[name], noise.get(name)


def _join(*answers: Answers) -> Answers:
    """Return all results of each row."""
    places = sorted({place for each in answers for place in each})
    return {place: [row for each in answers for row in each.get(place, ())] for place in places}


def _list_places(outputs: Mapping[str, Answers]) -> tuple[int, ...]:
    """Return the rows with another result in some output."""
    return tuple(sorted({place for answers in outputs.values() for place in answers}))


def _plan_copies(place: int, context: RunContext, folder: Path) -> Trial:
    """Return the trial of a row, repeated to the number of rows of its call in the reference."""
    first = place // context.largest_batch * context.largest_batch
    size = min(context.largest_batch, context.samples.splits[SEARCH].n - first)
    return Trial(name=f"copies-{place}", places=(place,) * size, batch=size, folder=folder)


def _plan_calls(places: Sequence[int], batch: int, context: RunContext, folder: Path) -> Trial:
    """Return the trial of the calls in which a candidate got some rows."""
    count = context.samples.splits[SEARCH].n
    firsts = sorted({place // batch * batch for place in places})
    rows = (place for first in firsts for place in range(first, min(first + batch, count)))
    return Trial(name="calls", places=tuple(rows), batch=batch, folder=folder)


def _plan_neighbours(place: int, other: int, context: RunContext, folder: Path) -> Trial:
    """Return the trial of a row at its position in the reference's call, among copies of another one."""
    size, at = len(_plan_copies(place, context, folder).places), place % context.largest_batch
    places = tuple(place if number == at else other for number in range(size))
    return Trial(name=f"company-{place}-{other}", places=places, batch=size, folder=folder)


def _check_copies(name: str, due: NDArray[Any], copies: Sequence[Trial], context: RunContext) -> Answers:
    """Compare an output of rows among copies of themselves with the reference's, each at its position in the call.

    Returns the source's results for the rows that are at a step: they differ without being mixed.
    """
    found = {trial.places[0]: row for trial in copies if (row := _read_row(name, due, trial, context)) is not None}
    if not found or not due.size:
        return {}
    everywhere, bound = np.ones(due.shape[1:], bool), choose_bound(due, context.source)
    made = replace_rows(due, found)
    errors = measure_errors(due, made, noise=everywhere)
    off = [place for place in found if errors[place].max(initial=0.0) > bound]
    if not off:
        return {}
    answers = {place: [found[place], *_run_companies(name, due, place, context)] for place in off}
    most = len(off) >= _REPEATED and len(off) > len(found) / 2
    if most or list_varying(due, answers, bound=bound, noise=everywhere):
        difference = find_discrepancy(name, due, made, places=range(len(due)), bound=bound, noise=everywhere)
        assert difference is not None  # noqa: S101 - some row is off by the same measure
        difference = replace(difference, compared=len(copies))
        raise explain_mixing(difference.describe("among the rows beside it", "among copies of itself"))
    return answers


def _run_companies(name: str, due: NDArray[Any], place: int, context: RunContext) -> list[NDArray[Any]]:
    """Return an output of a row in calls with several other rows."""
    count = context.samples.splits[SEARCH].n
    others = sorted({(place + count * part // (_COMPANIES + 1)) % count for part in range(1, _COMPANIES + 1)} - {place})
    if not others:
        return []
    with context.store.workspace() as folder:
        trials = [_plan_neighbours(place, other, context, folder) for other in others]
        write_rows(trials, context.locate(context.samples.splits[SEARCH].feeds))
        run_trials(trials, context)
        rows = [_read_row(name, due, trial, context, place=place) for trial in trials]
    return [row for row in rows if row is not None]


def _read_row(
    name: str, due: NDArray[Any], trial: Trial, context: RunContext, *, place: int | None = None
) -> NDArray[Any] | None:
    """Return an output of a trial's row at its position in the reference's call; None if it did not run."""
    outputs = trial.read_real(context.source).get(name)
    if outputs is None or outputs.shape != (trial.batch, *due.shape[1:]):
        return None
    return np.asarray(outputs[(trial.places[0] if place is None else place) % context.largest_batch])


def _list_differing(
    name: str, due: NDArray[Any], calls: Trial, context: RunContext, *, noise: NDArray[Any] | None
) -> dict[int, NDArray[Any]]:
    """Return the rows of some calls for which the source's output differs from the reference, with that output."""
    outputs = calls.read_real(context.source).get(name)
    if outputs is None or outputs.shape != (len(calls.places), *due.shape[1:]) or not due.size:
        return {}
    made = dict(zip(calls.places, outputs, strict=True))
    errors = measure_errors(due, replace_rows(due, made), noise=noise)
    off = (errors > choose_bound(due, context.source)).any(axis=1)
    return {int(place): np.asarray(made[int(place)]) for place in np.flatnonzero(off)}
