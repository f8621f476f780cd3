"""Trials of the source model by itself: some rows again, in other batches, and alone, before anything is built.

The reference for candidates must be a function of each row. So the worker that makes the reference first runs some rows
twice. A worker with another seed runs them again, in another order among other rows, and one by one.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from hone_runtime.sessions.shapes import find_fixed_batch
from hone_runtime.text import open_logger
from hone_runtime.values.artifact import Artifact
from hone_runtime.values.outcome import Failed
from hone_runtime.values.samples import SEARCH
from kedro_hone.search.comparison.arrays import UNREADABLE, open_arrays, read_arrays
from kedro_hone.search.comparison.crops import ODD_BATCH, find_rows_mask
from kedro_hone.search.context import RunContext
from kedro_hone.search.race.launches import launch
from kedro_hone.search.scores import Run

logger = open_logger(__name__)

ROWS: Final = 16
"""The number of rows of the search split in trials, spread over it."""
_ALONE: Final = 8
"""The number of them that are run one by one."""
COPIED: Final = 4
"""The number of these that are run in a batch of copies."""

Outputs = dict[str, NDArray[Any]]


@dataclass(frozen=True, kw_only=True)
class Trial:
    """Some rows of the search split, and how they are run."""

    name: str
    places: tuple[int, ...]  # indices of the rows, in order
    batch: int
    folder: Path

    @property
    def run(self) -> Run:
        """The input of a session: the rows, the file of the outputs, and the batch."""
        return self.folder / f"{self.name}-rows.npz", self.folder / f"{self.name}.npz", self.batch

    def read(self) -> Outputs | None:
        """Return the outputs; None if it did not run, or its outputs cannot be read."""
        try:
            return read_arrays(self.run[1])
        except UNREADABLE:
            return None

    def read_real(self, source: Artifact) -> Outputs:
        """Return the outputs with 0 for padding tokens; empty if absent."""
        outputs = self.read()
        return {} if outputs is None else mask_padding(outputs, read_arrays(self.run[0]), source)


@dataclass(frozen=True, kw_only=True)
class SourceTrials:
    """All trials: ``first`` and ``again`` are the same calls, in each of two processes."""

    first: tuple[Trial, Trial]  # in the process that makes the reference
    again: tuple[Trial, Trial]  # in the other one
    others: tuple[Trial, ...]  # there: in another order among other rows; alone; each of four among its copies


def plan_trials(context: RunContext, feeds: Path, folder: Path) -> SourceTrials:
    """Choose rows of the search split from the file of its inputs, and write them for each trial into a folder.

    A model with one batch size is only run at that, and one with other fixed sizes at the largest batch.
    """
    fixed, count = find_only_batch(context), context.samples.splits[SEARCH].n
    batch = fixed or min(ROWS, context.largest_batch)
    size = batch * max(1, ROWS // batch)
    places = _spread(count, size)
    wide = fixed or max(batch, ODD_BATCH)
    turned = _turn(places, count)
    others = [Trial(name="turned", places=turned[: wide * max(1, size // wide)], batch=wide, folder=folder)]
    if not fixed:
        alone = places[:: max(1, size // _ALONE)][:_ALONE]
        others.append(Trial(name="alone", places=alone, batch=1, folder=folder))
        copied = alone[:: max(1, len(alone) // COPIED)][:COPIED]
        copies = tuple(np.repeat(copied, wide).tolist())
        others.append(Trial(name="copies", places=copies, batch=wide, folder=folder))
    pairs = [
        tuple(Trial(name=f"{which}-{number}", places=places, batch=batch, folder=folder) for number in (1, 2))
        for which in ("first", "again")
    ]
    trials = SourceTrials(first=pairs[0], again=pairs[1], others=tuple(others))  # type: ignore[arg-type]  # both are two
    write_rows((*trials.first, *trials.again, *trials.others), feeds)
    return trials


def write_rows(trials: Sequence[Trial], feeds: Path) -> None:
    """Write the rows of each trial, taken from a file of the whole split's, to its input file."""
    taken: dict[str, Outputs] = {trial.name: {} for trial in trials}
    with open_arrays(feeds) as archive:
        for name in archive.files:
            array = archive[name]  # one at a time: all images of a split may be as large as the memory
            for trial in trials:
                taken[trial.name][name] = np.ascontiguousarray(array[list(trial.places)])
    for trial in trials:
        np.savez(trial.run[0], allow_pickle=False, **taken[trial.name])


def run_trials(trials: Iterable[Trial], context: RunContext) -> None:
    """Run trials of the source in a separate process, with another seed; failed ones leave no outputs."""
    trials = tuple(trials)
    folder, feeds = trials[0].folder, [trial.run[0] for trial in trials]
    seed = context.recipe.seed + 1
    with launch(context.source, name="source", context=context, output=folder, feeds=feeds, seed=seed) as session:
        failed = session if isinstance(session, Failed) else None
        if not isinstance(session, Failed):
            loaded = session.load(feeds=context.batches[next(iter(context.recipe.shapes))])
            failed = loaded if isinstance(loaded, Failed) else None
            for trial in trials if failed is None else ():
                rows, output, batch = trial.run
                failed = session.run(rows, output, batch=batch) or failed
    if failed is not None:
        logger.info("the source was not tried in every way: %s", failed.reason)


def find_only_batch(context: RunContext) -> int | None:
    """Return the only batch size that the source takes; None if it takes any."""
    if context.source.static_shapes:
        return context.largest_batch
    return find_fixed_batch(spec.shape for spec in context.source.inputs)


def mask_padding(outputs: Outputs, feeds: Mapping[str, NDArray[Any]], source: Artifact) -> Outputs:
    """Return outputs with 0 for padding tokens, for which they are meaningless."""
    of_tokens = {spec.name for spec in source.outputs if spec.shape[:2] == ("batch", "length")}
    mask = find_rows_mask(feeds) if of_tokens else None
    if mask is None:
        return outputs

    def blank(name: str, array: NDArray[Any]) -> NDArray[Any]:
        if name not in of_tokens or array.dtype.kind not in "biufc" or array.shape[:2] != mask.shape:
            return array
        return np.where(mask.reshape(*mask.shape, *(1,) * (array.ndim - 2)), array, array.dtype.type(0))

    return {name: blank(name, array) for name, array in outputs.items()}


def _spread(count: int, size: int) -> tuple[int, ...]:
    if count < size:
        return tuple(int(place) for place in np.resize(np.arange(count), size))
    return tuple(int(place) for place in np.linspace(0, count - 1, size).round())


def _turn(places: tuple[int, ...], count: int) -> tuple[int, ...]:
    """Return the indices in reverse order, with every second one replaced by the index of another row."""
    known, turned = set(places), list(reversed(places))
    fresh = [place for place in range(count) if place not in known]
    for number in range(1, len(turned), 2):
        if fresh:
            turned[number] = fresh[(number * len(fresh) // len(turned)) % len(fresh)]
    return tuple(turned)
