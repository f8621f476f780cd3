"""A model's predictions on a split, and their score against the source's, from workers, as intervals."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from hone_runtime.errors import HoneError
from hone_runtime.values.artifact import Artifact
from hone_runtime.values.base import Json
from hone_runtime.values.class_rows import ClassRows
from hone_runtime.values.measurement import Interval, Quality, SliceQuality
from hone_runtime.values.outcome import Failed, FailureClass
from hone_runtime.values.samples import GATE, Predicted, Score, Split
from hone_runtime.values.slices import Slices
from hone_runtime.values.spread import Spread
from kedro_hone.core.stats.balanced import Stratum, interval_of_balanced_accuracy, smallest_provable_balanced_drop
from kedro_hone.core.stats.intervals import (
    UNITS,
    interval_of_bootstrap,
    interval_of_mean,
    interval_of_paired_proportions,
    smallest_provable_drop,
)
from kedro_hone.core.stats.levels import share_among_slices
from kedro_hone.core.workers.host.session import WorkerSession
from kedro_hone.programs import call_program
from kedro_hone.programs.shared.targets import UNLABELLED
from kedro_hone.search.comparison.arrays import UNREADABLE, open_arrays
from kedro_hone.search.context import RunContext
from kedro_hone.search.race.launches import launch

UNBOUNDED = sys.float_info.max
"""Represents an unknown end: JSON has no infinity."""

_ONE_CLASS: Final = (
    "the source is right in the rows of one class at most, as a constant answer is, so that nothing could be lost in "
    "the others: check that the labels are the model's, or take another metric"
)
_NOTHING_TO_LOSE: Final = (
    "the source is right in no row, so that nothing could be lost: check that the labels are the model's, or take "
    "another metric"
)


Run = tuple[Path, Path, int]
"""Rows (``.npz``) to predict, the new ``.npz`` for the outputs, and the batch size."""


def predict(
    artifact: Artifact,
    *,
    name: str,
    runs: Sequence[Run],
    context: RunContext,
    trials: Sequence[Run] = (),
    stopped: Callable[[], bool] | None = None,
    reads: Sequence[Path] = (),
    later: Iterable[Run] = (),
    after: Callable[[WorkerSession], None] | None = None,
) -> Predicted | Failed:
    """Run an artifact over rows, with all outputs in one folder; return its costs, or why it failed.

    Trials are run first, and may fail; their outputs are written to that folder or below it. If ``stopped`` becomes
    true, its worker is ended. ``later`` are more runs, each made when the runs before it are done, on rows in
    ``reads`` or next to the outputs. ``after`` is called with the session after all rows were run, and may run other
    files (``reads``): neither its failures nor its memory count here.
    """
    place, feeds = runs[0][1].parent, [*(feeds for feeds, *_ in (*trials, *runs)), *reads]
    with launch(artifact, name=name, context=context, output=place, feeds=feeds, stopped=stopped) as session:
        if isinstance(session, Failed):
            return session
        loaded = session.load(feeds=context.batches[next(iter(context.recipe.shapes))])
        if isinstance(loaded, Failed):
            return loaded
        for rows, output, batch in trials:
            session.run(rows, output, batch=batch)
        for rows, output, batch in chain(runs, later):
            if failed := session.run(rows, output, batch=batch):
                return failed
        if after is None:
            peak = session.close().peak_memory_bytes
        else:
            peak = session.peak_memory_bytes()
            after(session)
        if not peak:
            reason = "what memory it took is not known, since its guard was killed; run again"
            return Failed(by=name, failure=FailureClass.KILLED, reason=reason)
        return Predicted(cold_start_ms=loaded, peak_memory_bytes=peak)


def score_predictions(
    outputs: dict[str, Path], *, reference: Path, split: Split, context: RunContext, confidence: float | None = None
) -> dict[str, Quality | str]:
    """Score predictions of candidates against the source's, with the recipe's program and metric.

    Returns a quality for each name, or why it could not be scored. The confidence of the intervals is by default the
    recipe's.

    Raises:
        HoneError: ``program-failed``, ``labels-mismatch`` or ``metric-unknown``: the source itself cannot be scored.
    """
    recipe, store = context.recipe, context.store
    job = {
        "program": str(context.program),
        "program_options": dict(recipe.program.options),
        "source": str(reference),
        "candidates": {name: str(path) for name, path in outputs.items()},
        "targets": str(context.locate(split.targets)),
        "metric": recipe.program.metric,
        "metrics": list(recipe.gates.drops),
        "seed": recipe.seed,
    }
    slices = find_slices(context) if split.name == GATE else None
    if slices is not None:
        codes = store.locate_tree(slices.digest) / slices.codes
        job["slices"] = {"codes": str(codes), "count": len(slices.sizes)}
    level, of = confidence or recipe.gates.confidence, {"split": split.name, "limit": recipe.gates.drop}
    limits = recipe.gates.drops
    with store.workspace() as folder:
        notes = call_program("evaluate", job=job, source=context.source, output=folder, store=store, run=context.run)
        read = {name: _read_all(name, row, level, limits=limits, **of) for name, row in notes["candidates"].items()}
        return read if slices is None else _add_slices(read, notes["candidates"], level, slices=slices)


def find_slices(context: RunContext) -> Slices | None:
    """Return the slices of the gate split; None if the recipe names none, or other ones than were prepared."""
    asked = context.recipe.gates.slices
    slices = context.samples.slices if asked is not None else None
    return slices if asked is not None and slices is not None and slices.by == asked.by else None


def _add_slices(
    read: Mapping[str, Quality | str], rows: Mapping[str, Json], confidence: float, *, slices: Slices
) -> dict[str, Quality | str]:
    """Return qualities with the slices of each; a text, which is why there is none, is not changed."""
    level, found = share_among_slices(confidence, slices=len(slices.sizes)), dict(read)
    for name, quality in read.items():
        if isinstance(quality, Quality):
            pairs = zip(slices.sizes, rows[name]["slices"], strict=True)
            parts = tuple(read_slice(one, level, name=size.name, n=size.n) for size, one in pairs)
            found[name] = quality.model_copy(update={"slices": parts})
    return found


def _read_all(
    name: str, row: Mapping[str, Json], confidence: float, *, limits: Mapping[str, float], **place: Any
) -> Quality | str:
    """Return the quality of a candidate with its other metrics, each with its own limit, or why one has no score."""
    quality, others = read_quality(name, row, confidence, **place), []
    for metric, limit in limits.items():
        if isinstance(quality, str):
            return quality
        other = read_quality(name, row["others"][metric], confidence, **{**place, "limit": limit})
        if isinstance(other, str):
            return other
        others.append(other)
    return quality if isinstance(quality, str) else quality.model_copy(update={"others": tuple(others)})


def has_labels(split: Split, context: RunContext) -> bool:
    """Return whether a split has labels; without labels a program compares with the source's outputs."""
    with open_arrays(context.locate(split.targets)) as targets:
        return not all(name.startswith(UNLABELLED) for name in targets.files)


def score_source(outputs: Path, split: Split, context: RunContext) -> Quality:
    """Score the source's predictions on a split.

    Raises:
        HoneError: ``program-failed``: the program cannot score them.
    """
    itself = score_predictions({"source": outputs}, reference=outputs, split=split, context=context)["source"]
    if isinstance(itself, Quality):
        return itself
    raise HoneError(
        "program-failed",
        f"The source model cannot be scored on the {split.name} split.",
        why=itself,
        hint="Name another metric in hone.program.metric or hone.gates.drops, or correct the program; see Write a "
        "program in the documentation.",
    )


def read_quality(name: str, row: Mapping[str, Json], confidence: float, **place: Any) -> Quality | str:
    """Return the quality of a candidate from the program's worker, or why it could not be scored.

    ``confidence`` is that of the drop's interval; ``place`` contains the split and the limit.
    """
    if error := row.get("error"):
        return f"{error['what']} {error['why']}"
    if row["kind"] == "balanced":
        return _read_balanced(name, row, confidence, **place)
    kind, n, spread, span = row["kind"], row["n"], None, 1.0
    loses_one = may_lose_one(higher_is_better=row["higher_is_better"], source=row["source"])
    proves = not (loses_one and row["source"] == 0 and (kind == "proportion" or not row["span"]))
    units = min(n, row.get("units", n))  # fewer than the rows if the metric depends most on those of a rare class
    few = units < UNITS and (kind != "proportion" or "units" in row)  # those of one class, not of all rows
    if kind == "proportion":
        drop = interval_of_paired_proportions(n=n, lost=row["lost"], gained=row["gained"], confidence=confidence)
    else:
        try:
            with open_arrays(Path(row["differences" if kind == "mean" else "replicates"])) as archive:
                values = np.asarray(archive[archive.files[0]], dtype=np.float64)
        except UNREADABLE as error:
            return f"the values that the program's worker wrote cannot be read: {error}"
        spread = _measure_spread(values) if kind == "mean" else None
        estimate = (1.0 if row["higher_is_better"] else -1.0) * (row["source"] - row["candidate"])
        # The loss of predictions for other rows: at least 1 for a metric that is best at 1; more for r2 or a
        # correlation, which may be below 0.
        span = float(max(1.0, row["span"])) if loses_one else row["span"] or UNBOUNDED
        if few:
            drop = Interval(estimate=estimate, low=-UNBOUNDED, high=UNBOUNDED, confidence=confidence)
        elif kind == "mean":
            drop = interval_of_mean(values, confidence=confidence, span=span)
        else:
            drop = interval_of_bootstrap(values, estimate, confidence=confidence, n=units, span=span)
    if few or not proves:  # so few rows prove nothing; with an unbounded interval every gate is undecided
        drop = drop.model_copy(update={"low": -UNBOUNDED, "high": UNBOUNDED})
    known = span if proves and span != UNBOUNDED else None
    return Quality(
        **_read_common(name, row),
        **place,
        doubt=row.get("doubt") or ("" if proves else _NOTHING_TO_LOSE),
        drop=drop,
        span=known,
        provable=None if known is None or few else known * smallest_provable_drop(units, confidence),
        spread=spread,
        **({field: row[field] for field in ("lost", "gained")} if kind == "proportion" else {}),
    )


def read_slice(row: Mapping[str, Json], confidence: float, *, name: str, n: int) -> SliceQuality:
    """Return the quality on the ``n`` rows of the slice ``name``, from the worker's result on it.

    The interval is made as for the whole split. There is one difference: if the source is right in no row of a slice,
    it may be right in unseen ones, which the interval of paired proportions includes.
    """
    unknown = Interval(estimate=0.0, low=-UNBOUNDED, high=UNBOUNDED, confidence=confidence)
    if error := row.get("error"):
        return SliceQuality(name=name, n=n, drop=unknown, reason=str(error))
    parts, counted = row.get("classes", ()), row["kind"] == "proportion" and "units" not in row
    if row["kind"] == "balanced" and len(parts) > 1:
        strata = [Stratum(n=one["n"], lost=one["lost"], gained=one["gained"]) for one in parts]
        drop = interval_of_balanced_accuracy(strata, confidence=confidence)
    elif counted or parts:  # of rows of one class, the balanced accuracy is the share of right rows
        lost, gained = ((parts[0] if parts else row)[key] for key in ("lost", "gained"))
        drop = interval_of_paired_proportions(n=n, lost=lost, gained=gained, confidence=confidence)
    else:
        found = read_quality(name, row, confidence, split=GATE)
        if isinstance(found, str):
            return SliceQuality(name=name, n=n, drop=unknown, reason=found)
        drop = found.drop
    return SliceQuality(name=name, n=n, source=row["source"], candidate=row["candidate"], drop=drop)


def _read_common(name: str, row: Mapping[str, Json]) -> dict[str, Any]:
    fields = ("metric", "higher_is_better", "kind", "source", "candidate", "n")
    return {"id": name, **{field: row[field] for field in fields}, "outputs": tuple(row.get("outputs", ()))}


def _read_balanced(name: str, row: Mapping[str, Json], confidence: float, **place: Any) -> Quality:
    """Return the quality by a balanced accuracy; nothing is proved by a source that is right in one class only."""
    classes = [ClassRows.model_validate(one) for one in row["classes"]]
    strata = [Stratum(n=one.n, lost=one.lost, gained=one.gained) for one in classes]
    drop = interval_of_balanced_accuracy(strata, confidence=confidence)
    proves = sum(one.right > 0 for one in classes) > 1
    if not proves:
        drop = drop.model_copy(update={"low": -UNBOUNDED, "high": UNBOUNDED})
    return Quality(
        **_read_common(name, row),
        **place,
        doubt=row.get("doubt") or ("" if proves else _ONE_CLASS),
        drop=drop,
        span=1.0 if proves else None,
        provable=smallest_provable_balanced_drop([one.n for one in classes], confidence) if proves else None,
        classes=tuple(classes),
    )


def has_nothing_to_lose(score: Score) -> bool:
    """Return whether a metric that is best at 1 is 0, also with other rows' targets: no candidate can be worse."""
    return score.value == 0 and score.span is None and may_lose_one(higher_is_better=score.higher_is_better, source=0)


def may_lose_one(*, higher_is_better: bool, source: float) -> bool:
    """Return whether at least 1 can be lost, as for a metric that is best at 1."""
    return higher_is_better and 0 <= source <= 1


def _measure_spread(differences: NDArray[np.float64]) -> Spread:
    values = np.quantile(differences, (0.0, 0.05, 0.5, 0.95, 0.99, 1.0))
    return Spread.model_validate(dict(zip(Spread.model_fields, map(float, values), strict=True)))
