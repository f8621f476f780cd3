"""Scores of candidates against the source, made by the program in a worker and turned into intervals here."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from kedro_hone.core import stats
from kedro_hone.core.contract.toolchain import Limits
from kedro_hone.core.errors import HoneError
from kedro_hone.core.store.artifacts import Store
from kedro_hone.core.store.runs import RunFolder
from kedro_hone.core.values.artifact import Artifact
from kedro_hone.core.values.base import Json, Value
from kedro_hone.core.values.measurement import Interval, Quality, Spread
from kedro_hone.core.values.outcome import Failed
from kedro_hone.core.workers.host.job import Job, JobInput, StepResult
from kedro_hone.core.workers.host.run import call_worker
from kedro_hone.programs import WORKER

PROGRAM_LIMITS = Limits(seconds=600, memory_mb=8192)


UNBOUNDED = sys.float_info.max
"""Stands for an end that is not known: JSON has no infinity."""


class Score(Value):
    """One candidate's score next to the source's, on the same rows.

    Attributes:
        metric: The metric's name.
        higher_is_better: Its direction.
        kind: ``proportion``, ``mean`` or ``bootstrap``.
        source: The source's value.
        candidate: The candidate's value.
        n: Rows.
        drop: How much worse the candidate is, with the interval at the confidence that was asked for.
        spread: How much worse single rows are, where the kind is ``mean``.
        doubt: Why the labels may not be those of the predictions; empty where the program has no doubt.
    """

    metric: str
    higher_is_better: bool
    kind: str
    source: float
    candidate: float
    n: int
    drop: Interval
    spread: Spread | None = None
    doubt: str = ""

    def judge(self, split: str, limit: float | None) -> Quality:
        """Return it as a quality on a split, with the limit."""
        return Quality(
            metric=self.metric,
            higher_is_better=self.higher_is_better,
            split=split,
            source=self.source,
            candidate=self.candidate,
            drop=self.drop,
            limit=limit,
            n=self.n,
            spread=self.spread,
        )


def call_program(
    function: str,
    *,
    job: Mapping[str, Json],
    store: Store,
    run: RunFolder,
    source: Artifact | None = None,
    output: Path | None = None,
) -> dict[str, Json]:
    """Run one function of the program's worker.

    Args:
        function: ``check``, ``read`` or ``evaluate``.
        job: Its options.
        store: The artifact store.
        run: The run, whose folder keeps the log; the user's imports count from its project.
        source: The source model, for the specifications of its tensors; ``check`` needs none.
        output: Where it may write, if anywhere.

    Returns:
        The worker's notes.

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
        raise _explain(error)
    return result.notes


def read_row(row: Mapping[str, Json], confidence: float) -> Score | str:
    """Return the score that the program's worker noted of a candidate, or what kept it from being scored.

    Args:
        row: What it noted.
        confidence: Of the drop's interval.
    """
    error = row.get("error")
    return f"{error['what']} {error['why']}" if error else _read_score(row, confidence)


def _explain(error: Mapping[str, Json]) -> HoneError:
    return HoneError(error["slug"], error["what"], why=error["why"], hint=error["hint"])


def _read_score(row: Mapping[str, Json], confidence: float) -> Score:
    sign, n = 1.0 if row["higher_is_better"] else -1.0, row["n"]
    estimate = sign * (row["source"] - row["candidate"])
    if row["kind"] == "proportion":
        drop = stats.interval_of_paired_proportions(n=n, lost=row["lost"], gained=row["gained"], confidence=confidence)
    elif n < stats.UNITS:
        # So few rows prove nothing; an interval without ends leaves every gate undecided.
        drop = Interval(estimate=estimate, low=-UNBOUNDED, high=UNBOUNDED, confidence=confidence)
    elif row["kind"] == "mean":
        drop = stats.interval_of_mean(_load_array(row["differences"]), confidence=confidence, span=_find_span(row))
    else:
        replicates = _load_array(row["replicates"])
        drop = stats.interval_of_bootstrap(replicates, estimate, confidence=confidence, n=n, span=_find_span(row))
    return Score(
        metric=row["metric"],
        higher_is_better=row["higher_is_better"],
        kind=row["kind"],
        source=row["source"],
        candidate=row["candidate"],
        n=n,
        drop=drop,
        spread=_measure_spread(_load_array(row["differences"])) if row["kind"] == "mean" else None,
        doubt=row.get("doubt", ""),
    )


def may_lose_one(*, higher_is_better: bool, source: float) -> bool:
    """Return whether what can be lost is known to be 1: of a metric that is best at 1."""
    return higher_is_better and 0 <= source <= 1


def _find_span(row: Mapping[str, Json]) -> float:
    """How much can be lost: 1 of what is best at 1; else what predictions for other rows would lose, if anything."""
    if may_lose_one(higher_is_better=row["higher_is_better"], source=row["source"]):
        return 1.0
    return row["span"] or UNBOUNDED


def _measure_spread(differences: NDArray[np.float64]) -> Spread:
    values = np.quantile(differences, (0.0, 0.05, 0.5, 0.95, 0.99, 1.0))
    return Spread.model_validate(dict(zip(Spread.model_fields, map(float, values), strict=True)))


def _load_array(path: str) -> NDArray[np.float64]:
    with np.load(path, allow_pickle=False) as archive:
        return np.asarray(archive[archive.files[0]], dtype=np.float64)
