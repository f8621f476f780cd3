"""Whether the source itself returns something else for single rows, where a candidate that only converts does.

The trials before the search run sixteen rows. Rows that mix rarely are not among them, and an exact candidate differs
from the reference there, since its batches are others. So before it is dropped, the source is run again on those rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from kedro_hone.comparing.arrays import open_arrays, read_arrays
from kedro_hone.comparing.cropping import MASK
from kedro_hone.comparing.differences import find_difference, measure_errors
from kedro_hone.comparing.setting import Setting
from kedro_hone.comparing.source_company import choose_bound, explain_mixing
from kedro_hone.comparing.source_trials import Trial, find_only_batch, mask_padding, run_trials, write_rows
from kedro_hone.core.values.samples import SEARCH, Reference

MOST_ROWS: Final = 16
"""Where more rows differ, no single one is excused."""
_COPIED: Final = 4
"""So many of them are run among copies of themselves."""


def find_unsteady(places: Sequence[int], *, batch: int, setting: Setting, reference: Reference) -> tuple[int, ...]:
    """Return those of some rows of the search split for which the source differs from itself in other batches.

    What is routed or rounded near a border may go the other way in them, and no candidate is wrong there.

    Args:
        places: The rows, at which a candidate differs from the reference.
        batch: The rows of the candidate's calls.
        setting: The run's.
        reference: The source's outputs.

    Returns:
        None of them where the reference has calls of the same rows, or where more rows than ``MOST_ROWS`` differ.

    Raises:
        HoneError: ``source-mixes-rows``: a row among copies of itself, in a call of as many rows, is another one.
    """
    if batch == setting.largest_batch or find_only_batch(setting) is not None:
        return ()
    feeds, source, unsteady = setting.locate(setting.samples.splits[SEARCH].feeds), setting.source, set[int]()
    with setting.store.workspace() as folder:
        copies = [_plan_copies(place, setting, folder) for place in places[:_COPIED]]
        calls = _plan_calls(places, batch, setting, folder) if len(places) <= MOST_ROWS else None
        trials = [*copies, calls] if calls else copies
        write_rows(trials, feeds)
        run_trials(trials, setting)
        with open_arrays(feeds) as archive:
            rows = {name: archive[name] for name in archive.files if name == MASK}
        noisy = setting.locate_noise(reference)
        noise = {} if noisy is None else read_arrays(noisy)
        with open_arrays(setting.store.locate_tree(reference.digest) / reference.outputs) as archive:
            for name in archive.files:  # one output at a time: it may be large
                due = mask_padding({name: archive[name]}, rows, source)[name]
                _check_copies(name, due, copies, setting)
                if calls:
                    unsteady |= set(_list_differing(name, due, calls, setting, noise=noise.get(name)))
    return tuple(place for place in places if place in unsteady)


def _plan_copies(place: int, setting: Setting, folder: Path) -> Trial:
    """Return the trial of a row as often as its call of the reference has rows."""
    first = place // setting.largest_batch * setting.largest_batch
    size = min(setting.largest_batch, setting.samples.splits[SEARCH].n - first)
    return Trial(name=f"copies-{place}", places=(place,) * size, batch=size, folder=folder)


def _plan_calls(places: Sequence[int], batch: int, setting: Setting, folder: Path) -> Trial:
    """Return the trial of the calls in which a candidate got some rows."""
    count = setting.samples.splits[SEARCH].n
    firsts = sorted({place // batch * batch for place in places})
    rows = (place for first in firsts for place in range(first, min(first + batch, count)))
    return Trial(name="calls", places=tuple(rows), batch=batch, folder=folder)


def _check_copies(name: str, due: NDArray[Any], copies: Sequence[Trial], setting: Setting) -> None:
    """Compare an output of rows among copies of themselves with the reference's, each at its place in the call."""
    found = due.copy()
    for trial in copies:
        outputs, place = trial.read_real(setting.source).get(name), trial.places[0]
        if outputs is not None and outputs.shape == (trial.batch, *due.shape[1:]):
            found[place] = outputs[place % setting.largest_batch]
    everywhere = np.ones(due.shape[1:], bool)
    bound = choose_bound(due, setting.source)
    if difference := find_difference(name, due, found, places=range(len(due)), bound=bound, noise=everywhere):
        difference = replace(difference, compared=len(copies))
        raise explain_mixing(difference.describe("among the rows beside it", "among copies of itself"))


def _list_differing(
    name: str, due: NDArray[Any], calls: Trial, setting: Setting, *, noise: NDArray[Any] | None
) -> list[int]:
    """Return the rows of some calls for which the source's output is not the reference's."""
    outputs = calls.read_real(setting.source).get(name)
    if outputs is None or outputs.shape != (len(calls.places), *due.shape[1:]) or not due.size:
        return []
    found = due.copy()
    found[[*calls.places]] = outputs
    off = (measure_errors(due, found, noise=noise) > choose_bound(due, setting.source)).any(axis=1)
    return [int(place) for place in np.flatnonzero(off)]
