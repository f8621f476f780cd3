"""The data that NNCF needs: calibration rows, and the metric that accuracy control keeps."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from . import session

Job = dict[str, Any]
Notes = dict[str, Any]
Array = np.ndarray[Any, Any]

BATCH = 64
"""Rows of one validation call where the batch is dynamic."""


class Rows:
    """Feeds from a npz, one array for each input, rows first; in calls of the batch that the model takes."""

    def __init__(self, path: str, inputs: list[Notes], batch: int = 1) -> None:
        with np.load(path, allow_pickle=False) as data:
            self._arrays = {spec["name"]: data[spec["name"]] for spec in inputs}
        self._rows = len(next(iter(self._arrays.values())))
        first = next(iter(inputs[0]["shape"]), None)
        self._fixed = first if isinstance(first, int) else 1
        self.batch = first if isinstance(first, int) else batch

    def __len__(self) -> int:
        return self._rows

    def take(self, rows: Iterable[int]) -> dict[str, Array]:
        """Return these rows of every input."""
        chosen = list(rows)  # once: an iterator would be empty for the second input
        return {name: array[chosen] for name, array in self._arrays.items()}

    def take_one(self, row: int) -> dict[str, Array]:
        """Return one row, repeated to the batch of a model that takes no other."""
        return self.take([row] * self._fixed)

    def batches(self) -> list[dict[str, Array]]:
        """Return all rows in calls of one size; the last one is padded with the first rows."""
        starts = range(0, self._rows, self.batch)
        return [self.take((start + offset) % self._rows for offset in range(self.batch)) for start in starts]


class Validation:
    """The program's metric as NNCF needs it: higher is better, with a score for each row where the metric has one."""

    def __init__(self, job: Job) -> None:
        from hone_loading import load_program

        program = job["program"]
        self._program = load_program(program["path"], program["library"])
        self._options = {**getattr(self._program, "OPTIONS", {}), **program["options"]}
        self._outputs = program["outputs"]
        self.name = str(getattr(self._program, "METRIC", "metric"))
        self._sign = 1.0 if getattr(self._program, "HIGHER_IS_BETTER", True) else -1.0
        self.rows = Rows(program["feeds"], job["input"]["inputs"], BATCH)
        labelled = getattr(self._program, "NEEDS_TARGETS", True)
        with np.load(program["targets" if labelled else "source"], allow_pickle=False) as data:
            self._targets = dict(data)

    def measure(self, compiled: Any, rows: Iterable[int]) -> tuple[float, list[Any]]:
        """Return the metric over these rows of the validation data, and what NNCF compares row by row.

        That is each row's score, or its outputs where the metric does not decompose: a metric such as the area
        under a curve has no value for one row.
        """
        chosen = list(rows)
        outputs = self._infer(compiled, chosen)
        predictions = self._program.decode(outputs, self._options)
        targets = {name: array[chosen] for name, array in self._targets.items()}
        value = self._sign * float(self._program.metric(predictions, targets, self._options))
        scores = self._program.score(predictions, targets, self._options)
        if scores is None:
            return value, [[outputs[name][row] for name in self._outputs] for row in range(len(chosen))]
        return value, [float(score) for score in scores]

    def _infer(self, compiled: Any, chosen: list[int]) -> dict[str, Array]:
        opened, parts = session.Session(compiled), []
        for start in range(0, len(chosen), self.rows.batch):
            part = chosen[start : start + self.rows.batch]
            filled = part + part[:1] * (self.rows.batch - len(part))
            outputs = opened.run(self.rows.take(filled))
            parts.append({name: outputs[name][: len(part)] for name in self._outputs})
        return {name: np.concatenate([part[name] for part in parts]) for name in self._outputs}
