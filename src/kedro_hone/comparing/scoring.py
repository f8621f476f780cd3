"""Scores of candidates against the source, made by the program in a worker and turned into intervals here."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kedro_hone.core import stats
from kedro_hone.core.contract.toolchain import Limits
from kedro_hone.core.errors import HoneError
from kedro_hone.core.store.artifacts import Store
from kedro_hone.core.store.runs import RunFolder
from kedro_hone.core.values.artifact import Artifact
from kedro_hone.core.values.base import Json
from kedro_hone.core.values.measurement import Interval, Quality, Spread
from kedro_hone.core.values.outcome import Failed
from kedro_hone.core.workers.host.job import Job, JobInput, StepResult
from kedro_hone.core.workers.host.run import call_worker
from kedro_hone.programs import WORKER

PROGRAM_LIMITS = Limits(seconds=600, memory_mb=8192)

UNBOUNDED = sys.float_info.max
"""Stands for an end that is not known: JSON has no infinity."""


def call_program(
    function: str,
    *,
    job: Mapping[str, Json],
    store: Store,
    run: RunFolder,
    source: Artifact | None = None,
    output: Path | None = None,
) -> dict[str, Json]:
    """Run one function of the program's worker, and return its notes.

    Args:
        function: ``check``, ``read`` or ``evaluate``.
        job: Its options.
        store: Where it has its temporary folder.
        run: The run, whose folder keeps the log; the user's imports count from its project.
        source: The source model, for the specifications of its tensors; ``check`` needs none.
        output: Where it may write, if anywhere.

    Raises:
        HoneError: ``program-failed`` when it ends otherwise; what it reports of bad data under its own slug.
    """
    folder = run.claim_step(f"program-{function}")
    with store.workspace() as scratch:
        (scratch / "temporary").mkdir()
        result = call_worker(
            Job(
                function=function,
                worker=str(WORKER),
                adaptor=f"program.{function}",
                stage="program",
                input=JobInput.of(source, store.locate(source)) if source else None,
                output=str(output) if output else None,
                temporary=str(scratch / "temporary"),
                options={**job, "project": str(run.project)},
            ),
            python=Path(sys.executable),
            toolchain=None,
            folder=folder,
            limits=PROGRAM_LIMITS,
        )
    if not isinstance(result, StepResult):
        log = result.log if isinstance(result, Failed) else None
        raise HoneError(
            "program-failed",
            f"The program's {function} did not end well.",
            why=result.reason,
            hint=f"Read {log or folder / 'log'}, mend the program, and run again.",
        )
    error = result.notes.get("error")
    if error:
        raise HoneError(error["slug"], error["what"], why=error["why"], hint=error["hint"])
    return result.notes


def read_quality(name: str, row: Mapping[str, Json], confidence: float, **place: Any) -> Quality | str:
    """Return the quality that the program's worker noted of a candidate, or what kept it from being scored.

    Args:
        name: The candidate's id.
        row: What it noted.
        confidence: Of the drop's interval.
        **place: The split and the limit.
    """
    if error := row.get("error"):
        return f"{error['what']} {error['why']}"
    kind, n, provable, spread = row["kind"], row["n"], None, None
    estimate = (1.0 if row["higher_is_better"] else -1.0) * (row["source"] - row["candidate"])
    if kind == "mean":
        spread = _measure_spread(_load_array(row["differences"]))
    if kind == "proportion":
        drop = stats.interval_of_paired_proportions(n=n, lost=row["lost"], gained=row["gained"], confidence=confidence)
    elif n < stats.UNITS:
        # So few rows prove nothing; an interval without ends leaves every gate undecided.
        drop = Interval(estimate=estimate, low=-UNBOUNDED, high=UNBOUNDED, confidence=confidence)
    elif kind == "mean":
        drop = stats.interval_of_mean(_load_array(row["differences"]), confidence=confidence, span=_find_span(row))
    else:
        replicates = _load_array(row["replicates"])
        drop = stats.interval_of_bootstrap(replicates, estimate, confidence=confidence, n=n, span=_find_span(row))
    if kind == "proportion" or may_lose_one(higher_is_better=row["higher_is_better"], source=row["source"]):
        provable = stats.smallest_provable_drop(n, confidence)
    told = {field: row[field] for field in ("metric", "higher_is_better", "kind", "source", "candidate", "n")} | {
        "doubt": row.get("doubt", "")
    }
    return Quality(id=name, **told, **place, drop=drop, provable=provable, spread=spread)


def may_lose_one(*, higher_is_better: bool, source: float) -> bool:
    """Return whether at least 1 can be lost: of a metric that is best at 1."""
    return higher_is_better and 0 <= source <= 1


def _find_span(row: Mapping[str, Json]) -> float:
    """How much can be lost: what predictions for other rows would lose, and at least 1 of what is best at 1."""
    if may_lose_one(higher_is_better=row["higher_is_better"], source=row["source"]):
        return float(max(1.0, row["span"]))  # more for r2 or a correlation, which have no end at 0
    return row["span"] or UNBOUNDED


def _measure_spread(differences: NDArray[np.float64]) -> Spread:
    values = np.quantile(differences, (0.0, 0.05, 0.5, 0.95, 0.99, 1.0))
    return Spread.model_validate(dict(zip(Spread.model_fields, map(float, values), strict=True)))


def _load_array(path: str) -> NDArray[np.float64]:
    with np.load(path, allow_pickle=False) as archive:
        return np.asarray(archive[archive.files[0]], dtype=np.float64)
