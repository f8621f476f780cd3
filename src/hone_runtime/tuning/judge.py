"""The recipe's metrics in a worker: outputs on the search split are decoded and measured as the gates do it."""

from __future__ import annotations

import importlib
import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from hone_runtime.worker.imports import load_program
from hone_runtime.worker.refusal import UnsuitedError

from .divergence import find_class_axes

Array = np.ndarray[Any, Any]


class Judge:
    """The program of a job and its metrics, with the targets of the search split.

    Attributes:
        metric: The name of the metric whose drop is limited: the recipe's, or the program's own.
        missing: Why the recipe's metric cannot be computed here, so that ``metric`` is the program's own; or empty.
        sign: 1 if a higher metric is better, otherwise -1.
        limits: The allowed drop of each other metric in the recipe that can be computed here, by name.
        outputs: The names of the outputs that the program reads.
    """

    def __init__(self, row: Mapping[str, Any]) -> None:
        """Import the program, find its metrics, and read its targets.

        A metric that this environment cannot compute is printed: the gates measure it later.

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
        found, self.missing = self._find_metric(row.get("metric"))
        self._main = found or self._find_metric(None)[0]
        self.metric, self.sign = str(self._main.name), 1.0 if self._main.higher_is_better else -1.0
        self._others, self.limits = dict[str, Any](), dict[str, float]()
        for name, given in row.get("drops", {}).items():
            metric, missing = self._find_metric(given["metric"])
            if not missing:
                key = name if name != self.metric else f"{name} (gates.drops)"
                self._others[key], self.limits[key] = metric, float(given["limit"])

    def require(self) -> None:
        """Check that the recipe's metric can be computed here: its limit is none of another metric.

        Raises:
            UnsuitedError: It cannot.
        """
        if self.missing:
            raise UnsuitedError(self.missing)

    def measure(self, outputs: Mapping[str, Array]) -> float:
        """Return the metric over all rows of the split; higher is better."""
        return self._measure(self._main, outputs)

    def measure_all(self, outputs: Mapping[str, Array]) -> dict[str, float]:
        """Return every metric over all rows of the split, by name, that of ``measure`` first; higher is better.

        A metric that raises is NaN: many have no value for outputs of a single class, or that are not finite.
        """
        found = dict[str, float]()
        for name, metric in {self.metric: self._main, **self._others}.items():
            try:
                found[name] = self._measure(metric, outputs)
            except Exception as error:  # noqa: BLE001 - a person's metric may raise anything
                print(f"{name} has no value: {error}", flush=True)  # noqa: T201 (the log)
                found[name] = math.nan
        return found

    def score(self, outputs: Mapping[str, Array], rows: Sequence[int]) -> tuple[float, list[float] | None]:
        """Return the metric over some rows and the score of each; NaN if too few, None if it has no scores."""
        predictions, targets = self._decode(self._main, outputs), self._shared.take_rows(self._targets, [*rows])
        scores = self._main.rows(predictions, targets)
        try:
            value = self.sign * float(self._main.value(predictions, targets))
        except Exception:  # a person's metric may raise anything for a single row
            if len(rows) == self._shared.count_rows(self._targets):
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

    def _find_metric(self, name: str | None) -> tuple[Any, str]:
        """Return a metric, the program's own by default; None and why if it cannot be computed here."""
        metrics = importlib.import_module("hone_programs.worker.metrics")
        try:
            metric = metrics.find_metric({"metric": name, "project": ""}, self._program, self._options)
            return metrics.choose_class(metric, self._targets, self._options), ""
        except Exception as error:  # a person's file may raise anything
            if name is None:
                raise
            missing = f"the metric {name} cannot be computed in this environment: {error}"
            print(missing, flush=True)  # noqa: T201 (the log)
            return None, missing

    def _measure(self, metric: Any, outputs: Mapping[str, Array]) -> float:
        sign = 1.0 if metric.higher_is_better else -1.0
        return sign * float(metric.value(self._decode(metric, outputs), self._targets))

    def _decode(self, metric: Any, outputs: Mapping[str, Array]) -> Any:
        decode = self._program.probabilities if metric.probabilities else self._program.decode
        return decode(dict(outputs), self._options)

    def _read_source(self) -> dict[str, Array]:
        with np.load(str(self._source), allow_pickle=False) as outputs:
            return dict(outputs)
