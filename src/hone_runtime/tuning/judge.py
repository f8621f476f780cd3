"""The program's metric in a worker: it decodes outputs on the search split and measures them."""

from __future__ import annotations

import importlib
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from hone_runtime.worker.imports import load_program

from .divergence import find_class_axes

Array = np.ndarray[Any, Any]


class Judge:
    """The program of a job, with the targets of the search split.

    Attributes:
        metric: The metric's name.
        sign: 1 if a higher metric is better, otherwise -1.
        outputs: The names of the outputs that the program reads.
    """

    def __init__(self, row: Mapping[str, Any]) -> None:
        """Import the program, and read its targets.

        Args:
            row: The ``program`` of a job.
        """
        self._program = load_program(row["path"], row["library"])
        self._options = {**getattr(self._program, "OPTIONS", {}), **row["options"]}
        self.sign = 1.0 if getattr(self._program, "HIGHER_IS_BETTER", True) else -1.0
        self._shared = importlib.import_module("hone_programs.shared.targets")
        self._source = row.get("source")
        self.metric, self.outputs = str(getattr(self._program, "METRIC", "metric")), [*row["outputs"]]
        with np.load(row["targets"], allow_pickle=False) as prepared:
            self._targets = dict(prepared)
        if not getattr(self._program, "NEEDS_TARGETS", True):
            self._targets = self._shared.merge_targets(self._program, self._targets, self._read_source())

    def measure(self, outputs: Mapping[str, Array]) -> float:
        """Return the metric over all rows of the split; higher is better."""
        return self.sign * float(self._program.metric(*self._decode(outputs, None)))

    def score(self, outputs: Mapping[str, Array], rows: Sequence[int]) -> tuple[float, list[float] | None]:
        """Return the metric over some rows, and the program's score of each row; None if it has none."""
        judged = self._decode(outputs, rows)
        scores = self._program.score(*judged)
        value = self.sign * float(self._program.metric(*judged))
        return value, None if scores is None else [float(score) for score in scores]

    def measure_source(self) -> float | None:
        """Return the metric of the source's stored outputs; None if the job has none."""
        return None if self._source is None else self.measure(self._read_source())

    def find_class_axes(self, outputs: Mapping[str, Array]) -> dict[str, int]:
        """Return the axis of the classes, for each output in which the program chooses the largest score.

        There is none if the program cannot decode these outputs without their targets.
        """
        try:
            predictions = self._program.decode(dict(outputs), self._options)
        except Exception:  # noqa: BLE001 - a person's program may raise anything
            return {}
        return find_class_axes(outputs, predictions)

    def _decode(self, outputs: Mapping[str, Array], rows: Sequence[int] | None) -> tuple[Any, Any, Any]:
        targets = self._targets if rows is None else self._shared.take_rows(self._targets, [*rows])
        return self._program.decode(dict(outputs), self._options), targets, self._options

    def _read_source(self) -> dict[str, Array]:
        with np.load(str(self._source), allow_pickle=False) as outputs:
            return dict(outputs)
