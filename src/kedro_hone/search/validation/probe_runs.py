"""Probes, run in the session of a source, which determines the valid ones, and in those of the candidates."""

from __future__ import annotations

import time
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from hone_runtime.text import open_logger
from hone_runtime.values.outcome import Failed
from hone_runtime.values.samples import SEARCH, ProbeRows
from kedro_hone.core.workers.host.session import WorkerSession
from kedro_hone.search.comparison.arrays import UNREADABLE, open_arrays, read_arrays
from kedro_hone.search.comparison.crops import has_fixed_batch
from kedro_hone.search.comparison.differences import measure_errors
from kedro_hone.search.comparison.probes import ROWS, Arrays, Probe, is_mask, list_patterns, make_probes
from kedro_hone.search.comparison.ranges import confine
from kedro_hone.search.context import RunContext
from kedro_hone.search.stability.batch_effects import choose_bound

logger = open_logger(__name__)

_MOST_SECONDS: Final = 60.0
"""A probe that takes longer ends its worker: it then has no result, nor do those after it."""

_SLOW: Final = 2.0
"""Seconds after which no larger integers are tried: the source may interpret them as a size."""


class SourceProbing:
    """The probes of a source: run in its session; those that it accepts are stored in a folder with its outputs."""

    def __init__(self, context: RunContext, folder: Path) -> None:
        source = context.source
        limits: dict[str, int] = dict(source.metadata.get("transformers", {}).get("limits", {}))
        base: dict[str, NDArray[Any]] = {}
        masks: dict[str, Collection[str]] = {}
        with open_arrays(context.locate(context.samples.splits[SEARCH].feeds)) as rows:
            for spec in source.inputs:  # one input at a time: a split may be large
                array = rows[spec.name]
                base[spec.name] = array[:ROWS].copy()
                _check_range(spec.name, array, context)
                masks |= {spec.name: list_patterns(array)} if is_mask(spec, array) else {}
        made = make_probes(source.inputs, base, masks=masks, limits=limits, seed=context.recipe.seed)
        self._probes = confine(made, base, context.recipe.model.ranges, seed=context.recipe.seed)
        self._source, self._folder = source, folder
        self._takes_missing = "sklearn" in source.metadata
        self._batch = context.largest_batch if source.static_shapes or has_fixed_batch(source) else None
        self.kept: list[ProbeRows] = []

    def run(self, session: WorkerSession) -> None:
        """Run each probe, its rows together and one by one; store those with the same finite outputs both times."""
        refused: set[str] = set()
        for number, probe in enumerate(self._probes):
            if session.ended:
                return
            if probe.group in refused:
                continue
            feeds, outputs = (self._folder / f"probe-{number}{suffix}.npz" for suffix in ("-feeds", ""))
            np.savez(feeds, allow_pickle=False, **probe.feeds)
            started = time.monotonic()
            failed = session.run(feeds, outputs, batch=self._batch, seconds=_MOST_SECONDS)
            if probe.group and (failed is not None or time.monotonic() - started > _SLOW):
                refused.add(probe.group)
            if failed is None and self._write_valid(probe.feeds, feeds, outputs, session):
                self.kept.append(self._describe(probe, feeds.name, outputs.name))
            else:
                feeds.unlink()
                outputs.unlink(missing_ok=True)

    def _describe(self, probe: Probe, feeds: str, outputs: str) -> ProbeRows:
        """Return the record of a probe. Estimators accept missing values by design; networks only by accident."""
        numbers = (array for array in probe.feeds.values() if array.dtype.kind == "f")
        accident = not self._takes_missing and any(map(_is_unusual, numbers))
        return ProbeRows(
            name=probe.name,
            feeds=feeds,
            outputs=outputs,
            extreme=probe.extreme,
            lenient=probe.lenient or accident,
            unlike_data=probe.unlike_data,
            sizes=dict(probe.sizes),
        )

    def _write_valid(self, given: Arrays, feeds: Path, outputs: Path, session: WorkerSession) -> bool:
        """Write the rows with such outputs, and the outputs, to two files; return whether there are any.

        No candidate can be wrong if rounding or the other rows of the batch decide: there the source differs from
        itself. The rows are written from memory, since the worker could have changed the file.
        """
        made, count = _read(outputs), len(next(iter(given.values())))
        if made is None or any(array.ndim == 0 or len(array) != count for array in made.values()):
            return False
        single, valid = outputs.with_name(f"{outputs.stem}-single.npz"), np.ones(count, bool)
        alone: Arrays = {}
        if self._batch is None and session.run(feeds, single, batch=1, seconds=_MOST_SECONDS) is None:
            alone = _read(single) or {}
        single.unlink(missing_ok=True)
        for name, array in made.items():
            if array.dtype.kind in "fc":
                valid &= np.isfinite(array).reshape(count, -1).all(axis=1)
            if (again := alone.get(name)) is not None and again.shape == array.shape and array.size:
                everywhere = np.ones(array.shape[1:], bool)  # small numbers may have the rounding error of large ones
                errors = measure_errors(array, again, noise=everywhere)
                valid &= (errors <= choose_bound(array, self._source)).all(axis=1)
        for path, arrays in ((feeds, given), (outputs, made)):
            np.savez(path, allow_pickle=False, **{name: array[valid] for name, array in arrays.items()})
        return bool(valid.any())


def _check_range(name: str, array: NDArray[Any], context: RunContext) -> None:
    """Warn of rows that are outside the recipe's range for an input."""
    if name not in context.recipe.model.ranges:
        return
    low, high = context.recipe.model.ranges[name]
    outside = np.flatnonzero(((array < low) | (array > high)).reshape(len(array), -1).any(axis=1))
    if outside.size:
        message = "warning   model.ranges has %s from %g to %g, and row %d of the %s split is outside, of %d such rows"
        logger.warning(message, name, low, high, outside[0], SEARCH, len(outside))


def _is_unusual(array: NDArray[Any]) -> bool:
    """Return whether numbers are not finite, or denormal: a network accepts these only by accident."""
    sizes = np.abs(array)
    return bool((~np.isfinite(array) | ((sizes > 0) & (sizes < np.finfo(array.dtype).tiny))).any())


def _read(path: Path) -> Arrays | None:
    try:
        return read_arrays(path)
    except UNREADABLE:
        return None


def run_candidate(
    session: WorkerSession, probes: Sequence[ProbeRows], *, tree: Path, folder: Path, batch: int | None
) -> dict[str, Path | Failed]:
    """Run the probes on a candidate; return, by the probe's name, the outputs' path or how it failed.

    A probe that ends the worker is the last one of the result.
    """
    found: dict[str, Path | Failed] = {}
    for number, probe in enumerate(probes):
        output = folder / f"probe-{number}.npz"
        failed = session.run(tree / probe.feeds, output, batch=batch, seconds=_MOST_SECONDS)
        found[probe.name] = failed or output
        if session.ended:
            break
    return found
