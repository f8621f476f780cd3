"""Scores of candidates against the source, made by the program in a worker and turned into intervals here."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path

import numpy as np

import kedro_hone
from kedro_hone.core import stats
from kedro_hone.core.contract import Limits
from kedro_hone.core.errors import HoneError
from kedro_hone.core.job import Job, JobInput, StepResult
from kedro_hone.core.measurement import Interval, Quality
from kedro_hone.core.run import call_worker
from kedro_hone.core.samples import Samples, Split
from kedro_hone.core.types import Artifact, Failed, Json, Value
from kedro_hone.core.workplace import Workplace

PROGRAM_WORKER = Path(kedro_hone.__file__).parent / "programs" / "worker.py"
PROGRAM_LIMITS = Limits(seconds=600, memory_mb=8192)


class Metric(Value):
    """Which metric is asked for, and how it is estimated.

    Attributes:
        name: A name, an import path, or None for the program's own.
        options: The program's options.
        seed: Seed of the bootstrap.
    """

    name: str | None
    options: dict[str, Json]
    seed: int


class Score(Value):
    """One candidate's score beside the source's, on the same rows.

    Attributes:
        metric: The metric's name.
        kind: ``proportion``, ``mean`` or ``bootstrap``.
        source: The source's value.
        candidate: The candidate's value.
        n: Rows.
        drop: How much worse the candidate is, with the interval at the confidence that was asked for.
    """

    metric: str
    kind: str
    source: float
    candidate: float
    n: int
    drop: Interval

    def judge(self, split: str, limit: float | None) -> Quality:
        """Return it as a quality on a split, beside the limit."""
        return Quality(
            metric=self.metric,
            split=split,
            source=self.source,
            candidate=self.candidate,
            drop=self.drop,
            limit=limit,
            n=self.n,
        )


def call_program(
    function: str, *, job: Mapping[str, Json], source: Artifact, samples_folder: Path, workplace: Workplace
) -> dict[str, Json]:
    """Run one function of the program's worker.

    Args:
        function: ``read`` or ``evaluate``.
        job: Its options.
        source: The source model, for the specifications of its tensors.
        samples_folder: Where it may write.
        workplace: Where the run works.

    Returns:
        The worker's notes.

    Raises:
        HoneError: ``program-failed`` when it ends otherwise; what it reports of bad data under its own slug.
    """
    folder = workplace.claim_step(f"program-{function}")
    with workplace.store.workspace() as scratch:
        (scratch / "temporary").mkdir()
        result = call_worker(
            Job(
                function=function,
                worker=str(PROGRAM_WORKER),
                adaptor=f"program.{function}",
                stage="program",
                input=JobInput.of(source),
                output=str(samples_folder),
                temporary=str(scratch / "temporary"),
                options=dict(job),
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


def score(
    outputs: Mapping[str, Path],
    *,
    reference: Path,
    split: Split,
    samples: Samples,
    source: Artifact,
    metric: Metric,
    confidence: float,
    workplace: Workplace,
) -> dict[str, Score]:
    """Score candidates against the source on one split.

    Args:
        outputs: The candidates' outputs, by a name of the caller's choice.
        reference: The source's outputs.
        split: The split that both answered.
        samples: The prepared data, for the program.
        source: The source model.
        metric: What is measured.
        confidence: Of the drop's interval.
        workplace: Where the run works.

    Returns:
        A score for each name.

    Raises:
        HoneError: ``program-failed``, ``labels-mismatch`` or ``metric-unknown``.
    """
    with workplace.store.workspace() as folder:
        notes = call_program(
            "evaluate",
            job={
                "program": samples.program,
                "program_options": metric.options,
                "source": str(reference),
                "candidates": {name: str(path) for name, path in outputs.items()},
                "targets": split.targets,
                "metric": metric.name,
                "seed": metric.seed,
            },
            source=source,
            samples_folder=folder,
            workplace=workplace,
        )
        return {name: _read_score(row, confidence) for name, row in notes["candidates"].items()}


def _read_score(row: Mapping[str, Json], confidence: float) -> Score:
    sign = 1.0 if row["higher_is_better"] else -1.0
    estimate = sign * (row["source"] - row["candidate"])
    if row["kind"] == "proportion":
        drop = stats.interval_of_paired_proportions(
            n=row["n"], lost=row["lost"], gained=row["gained"], confidence=confidence
        )
    elif row["kind"] == "mean":
        drop = stats.interval_of_mean(np.load(row["differences"])["differences"], confidence=confidence)
    else:
        drop = stats.interval_of_bootstrap(
            np.load(row["replicates"])["replicates"], estimate, confidence=confidence
        )
    return Score(
        metric=row["metric"],
        kind=row["kind"],
        source=row["source"],
        candidate=row["candidate"],
        n=row["n"],
        drop=drop,
    )
