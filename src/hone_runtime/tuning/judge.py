"""The recipe's metrics in a worker: outputs on the search split are decoded and measured as the gates do it."""

from __future__ import annotations

import importlib
import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from hone_runtime.worker.imports import load_program

from .divergence import find_class_axes

Array = np.ndarray[Any, Any]


class Judge:
    """The program of a job and its metrics, with the targets of the search split.

    Attributes:
        metric: The name of the metric whose drop is limited: the recipe's, or the program's own.
        sign: 1 if a higher metric is better, otherwise -1.
        limits: The allowed drop of each other metric in the recipe, by name.
        outputs: The names of the outputs that the program reads.
    """

    def __init__(self, row: Mapping[str, Any]) -> None:
        """Import the program, find its metrics, and read its targets.

        A metric that this environment cannot compute is printed and left out: the gates measure it later.

        Args:
            row: The ``program`` of a job.
        """
        self._program = load_program(row["path"], row["library"])
        self._options = {**getattr(self._program, "OPTIONS", {}), **row["options"]}
        self._shared = importlib.import_module("hone_programs.shared.targets")
        self._source, self.outputs = row.get("source"), [*row["outputs"]]
        with np.load(row["targets"], allow_pickle=False) as prepared:
            self._targets = dict(prepared)
        if not getattr(self._program, "NEEDS_TARGETS", True):
            self._targets = self._shared.merge_targets(self._program, self._targets, self._read_source())
        self._count = max((len(array) for array in self._targets.values()), default=0)
        self._main = self._find_metric(row.get("metric")) or self._find_metric(None)
        self.metric, self.sign = str(self._main.name), 1.0 if self._main.higher_is_better else -1.0
        drops = row.get("drops", {}).items()
        others = {name: (self._find_metric(given["metric"]), given["limit"]) for name, given in drops}
        self._others = {name: metric for name, (metric, _) in others.items() if metric is not None}
        self.limits = {name: float(limit) for name, (metric, limit) in others.items() if metric is not None}

    def measure(self, outputs: Mapping[str, Array]) -> float:
        """Return the metric over all rows of the split; higher is better."""
        return self._measure(self._main, outputs)

    def measure_all(self, outputs: Mapping[str, Array]) -> dict[str, float]:
        """Return every metric over all rows of the split, by name, that of ``measure`` first; higher is better."""
        others = {name: self._measure(metric, outputs) for name, metric in self._others.items()}
        return {self.metric: self.measure(outputs), **others}

    def score(self, outputs: Mapping[str, Array], rows: Sequence[int]) -> tuple[float, list[float] | None]:
        """Return the metric over some rows and the score of each; NaN if too few, None if it has no scores."""
        predictions, targets = self._decode(self._main, outputs), self._shared.take_rows(self._targets, [*rows])
        scores = self._main.rows(predictions, targets)
        try:
            value = self.sign * float(self._main.value(predictions, targets))
        except Exception:  # a person's metric may raise anything for a single row
            if len(rows) == self._count:
                raise
            value = math.nan
        return value, None if scores is None else [float(score) for score in scores]

    def measure_source(self) -> dict[str, float] | None:
        """Return the metrics of the source's stored outputs, as ``measure_all``; None if the job has none."""
        return None if self._source is None else self.measure_all(self._read_source())

    def find_class_axes(self, outputs: Mapping[str, Array]) -> dict[str, int]:
        """Return the axis of the classes, for each output in which the program chooses the largest score.

        There is none if the program cannot decode these outputs without their targets.
        """
        try:
            predictions = self._program.decode(dict(outputs), self._options)
        except Exception:  # noqa: BLE001 - a person's program may raise anything
            return {}
        return find_class_axes(outputs, predictions)

    def _find_metric(self, name: str | None) -> Any:
        """Return a metric, the program's own by default; None if it cannot be computed here."""
        metrics = importlib.import_module("hone_programs.worker.metrics")
        try:
            metric = metrics.find_metric({"metric": name, "project": ""}, self._program, self._options)
        except ValueError as error:
            if name is None:
                raise
            print(f"{name} is not measured here: {error}", flush=True)  # noqa: T201 (the log)
            return None
        return metrics.choose_class(metric, self._targets, self._options)

    def _measure(self, metric: Any, outputs: Mapping[str, Array]) -> float:
        sign = 1.0 if metric.higher_is_better else -1.0
        return sign * float(metric.value(self._decode(metric, outputs), self._targets))

    def _decode(self, metric: Any, outputs: Mapping[str, Array]) -> Any:
        decode = self._program.probabilities if metric.probabilities else self._program.decode
        return decode(dict(outputs), self._options)

    def _read_source(self) -> dict[str, Array]:
        with np.load(str(self._source), allow_pickle=False) as outputs:
            return dict(outputs)
