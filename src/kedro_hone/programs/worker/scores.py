"""The comparison of candidates with the source on the same rows."""

from __future__ import annotations

import copy
import warnings
from collections.abc import Iterator, Mapping
from contextlib import suppress
from functools import cached_property
from typing import Any

import numpy as np

from .errors import ReportedError
from .metrics import Metric, choose_class, import_positive
from .splits import TABLE, Array

Arrays = dict[str, Array]
Json = dict[str, Any]
SAME_SCORE = 1e-6
_UNDEFINED = (ValueError, ArithmeticError)  # raised by a metric without a value, such as a precision without positives
UNDEFINED_LIMIT = 0.01  # the largest share of resamples on which a metric may be undefined
REPLICATES = 2000  # number of resamples for a metric that is not a mean over rows (bootstrap)
ROLLS = 9  # number of shifts of the targets to other rows, to check in which direction the metric is better
_OTHER_METRIC = (
    "Name one that fits the predictions and targets, in hone.program.metric or in hone.gates.drops, whichever has it; "
    "without it, the program's own is taken. Of a metric of your own, see Write a program in the documentation."
)


class Outputs(Arrays):
    """A model's outputs by name; the names that a program reads are recorded in ``read``."""

    def __init__(self, outputs: Mapping[str, Array]) -> None:
        super().__init__(outputs)
        self.read: set[str] = set()

    def __getitem__(self, name: str) -> Array:
        """Return an output, and record its name."""
        self.read.add(name)
        return super().__getitem__(name)

    def __iter__(self) -> Iterator[str]:
        """Return the names: with this method, ``dict(outputs)`` reads each of them by ``[name]``."""
        return super().__iter__()

    def get(self, name: str, default: Any = None) -> Any:
        """Return an output or the default."""
        self.read.add(name)
        return super().get(name, default)

    def pop(self, name: str, *default: Any) -> Any:
        """Remove an output and return it, or the default."""
        self.read.add(name)
        return super().pop(name, *default)

    def values(self) -> Any:
        """Return all outputs."""
        self.read.update(super().keys())
        return super().values()

    def items(self) -> Any:
        """Return all outputs with their names."""
        self.read.update(super().keys())
        return super().items()


class Comparison:
    """Compares candidates' outputs with the source's on the same rows; one seed draws the same resamples for all.

    Raises:
        ReportedError: As ``compare``, for the source itself.
    """

    def __init__(
        self, program: Any, options: Json, metric: Metric, *, outputs: Arrays, targets: Arrays, seed: int
    ) -> None:
        self.program, self.options, self.targets, self.seed = program, options, targets, seed
        self.metric = metric = choose_class(metric, targets, options)
        self._rows = next(len(array) for name, array in targets.items() if not name.startswith(TABLE))
        self._sign = 1.0 if metric.higher_is_better else -1.0
        self._source = self.decode(outputs)
        self._value = self._measure(self._source)

    def compare(self, outputs: Arrays) -> Json:
        """Compare a candidate's outputs with the source's.

        Returns ``metric``, ``higher_is_better``, ``source``, ``candidate``, ``n``, the names of the ``outputs`` that
        were read, and ``kind``: ``proportion`` with ``lost`` and ``gained`` rows if every row is right or wrong (for
        the recall, ``n`` is the number of rows of its class); ``balanced`` with the ``classes`` (each with ``name``,
        ``n``, ``right``, ``lost`` and ``gained``) if each class counts the same; ``mean`` with the ``differences`` of
        rows, or ``bootstrap`` with the ``replicates`` of the drop (arrays; positive is worse) and with ``units`` if
        fewer rows count; both with ``span``, the largest possible loss. Optional is ``doubt``: why the targets may not
        belong to the predictions, or the metric's direction may be wrong.

        Raises:
            ReportedError: ``labels-mismatch`` or ``program-failed``: the outputs do not have one row for each target;
                the metric is not a number, is undefined on too many resamples, or is not the mean of its rows (or minus
                the mean if lower is better); or it needs probabilities, which the program does not have.
        """
        read = Outputs(outputs)
        row = self.compare_predictions(self.decode(read))
        find_doubt = getattr(self.program, "find_doubt", lambda *_: None)
        if doubt := find_doubt(outputs, self.targets, self.options) or self._direction_doubt:
            row["doubt"] = doubt
        return {**row, "outputs": sorted(read.read)}

    def compare_predictions(self, candidate: Any) -> Json:
        """Compare a candidate's predictions; the result is that of ``compare`` without ``outputs`` and ``doubt``.

        Raises:
            ReportedError: ``program-failed``, as ``compare``.
        """
        metric, value = self.metric, self._measure(candidate)
        told = {"metric": metric.name, "higher_is_better": metric.higher_is_better, "n": self._rows}
        row = self._compare_classes(candidate) or self._compare_chosen(candidate)
        row = row or self._compare_rows(candidate, value) or self._compare_resamples(candidate)
        if row["kind"] in {"mean", "bootstrap"}:
            row["span"] = self._span
        return {**told, "source": self._value, "candidate": value, **row}

    def select(self, rows: Array) -> Comparison:
        """Return the comparison on some rows only, with this metric, its positive class, and this span.

        The span stays, since rows that are alike may have no other targets among them.

        Raises:
            ReportedError: ``program-failed``: the metric is not defined for the source on these rows.
        """
        part, targets, source = copy.copy(self), take_rows(self.targets, rows), take_rows(self._source, rows)
        value = self._measure(source, targets)
        vars(part).update(targets=targets, _source=source, _rows=len(rows), _value=value, _span=self._span)
        vars(part).pop("_source_resampled", None)
        return part

    def decode(self, outputs: Arrays) -> Any:
        """Return the program's predictions, or its probabilities if the metric needs them.

        Raises:
            ReportedError: ``labels-mismatch`` or ``program-failed``, as ``compare``.
        """
        for name in outputs:
            output = dict.__getitem__(outputs, name)
            if output.ndim == 0 or len(output) != self._rows:
                why = f"output {name!r} has shape {output.shape}, and there are {self._rows} rows"
                raise ReportedError("labels-mismatch", "The labels do not match the model's outputs.", why)
        if hasattr(self.program, "check"):
            self.program.check(outputs, self.targets, self.options)
        if not self.metric.probabilities:
            return self.program.decode(outputs, self.options)
        if not hasattr(self.program, "probabilities"):
            raise self._explain("it takes probabilities, and the program does not define them")
        return self.program.probabilities(outputs, self.options)

    def _explain(self, why: str) -> ReportedError:
        what = f"The metric {self.metric.name!r} cannot be computed."
        return ReportedError("program-failed", what, why, hint=_OTHER_METRIC)

    def _measure(self, predictions: Any, targets: Arrays | None = None) -> float:
        try:
            value = float(self.metric.value(predictions, self.targets if targets is None else targets))
        except _UNDEFINED as error:
            raise self._explain(str(error)) from error
        if not np.isfinite(value):
            raise self._explain(f"it is {value}")
        return value

    def _compare_classes(self, candidate: Any) -> Json | None:
        """Compare the rows of each class; None if the metric is not a mean over classes."""
        if self.metric.strata is None:
            return None
        before, after = (np.equal(row, 1) for row in self._list_rows(candidate))
        shared, labels = import_positive(), self.metric.strata(self.targets)
        classes = [
            {
                "name": shared.clean_name(name),
                "n": int(own.sum()),
                "right": int(before[own].sum()),
                "lost": int((before & ~after)[own].sum()),
                "gained": int((after & ~before)[own].sum()),
            }
            for name, value in shared.list_classes(self.targets, labels).items()
            if (own := labels == value).any()
        ]
        return {"kind": "balanced", "classes": classes}

    def _list_rows(self, candidate: Any) -> list[Any]:
        return [self.metric.rows(predictions, self.targets) for predictions in (self._source, candidate)]

    def _compare_chosen(self, candidate: Any) -> Json | None:
        """Compare the rows of the positive class, if the metric is the share of them that is right."""
        if self.metric.chosen is None:
            return None
        own = self.metric.chosen(self.targets)
        if not own.any():
            raise self._explain(f"no row is of {self.metric.name.partition(' of ')[2]}")
        before, after = (np.equal(row, 1)[own] for row in self._list_rows(candidate))
        lost, gained = int((before & ~after).sum()), int((after & ~before).sum())
        return {"kind": "proportion", "n": len(before), "units": len(before), "lost": lost, "gained": gained}

    def _compare_rows(self, candidate: Any, value: float) -> Json | None:
        """Compare row by row with a candidate of this value; None if the metric is not a mean over rows."""
        metric, rows = self.metric, self._list_rows(candidate)
        if rows[0] is None or rows[1] is None:
            return None
        before, after = (np.asarray(row, dtype=np.float64) for row in rows)
        for mean, wanted in ((before.mean(), self._sign * self._value), (after.mean(), self._sign * value)):
            if not np.isclose(mean, wanted, rtol=SAME_SCORE, atol=SAME_SCORE):  # an interval of another metric
                which = "metric" if metric.higher_is_better else "minus metric, since lower is better"
                said = f"score (higher is better for each row) averages to {mean:.6g} instead of {wanted:.6g}"
                why = f"{said}, which is {which}; correct its sign, or let score return None if it is no mean"
                raise ReportedError("program-failed", f"The rows of {metric.name!r} do not average to it.", why)
        if metric.kind != "mean" and np.isin(before, (0, 1)).all() and np.isin(after, (0, 1)).all():
            return {"kind": "proportion", "lost": int((before > after).sum()), "gained": int((before < after).sum())}
        return {"kind": "mean", "differences": before - after}

    def _compare_resamples(self, candidate: Any) -> Json:
        """Return the drops on the resamples with a defined metric: nearly all, otherwise the sample would be biased."""
        drops = self._sign * (self._source_resampled - self._resample(candidate))
        undefined = ~np.isfinite(drops)
        if undefined.mean() > UNDEFINED_LIMIT:
            why = f"it is not defined on {undefined.sum()} of {len(drops)} resamples; some class has too few rows"
            raise ReportedError("program-failed", f"The interval of {self.metric.name!r} cannot be computed.", why)
        units = {} if self.metric.units is None else {"units": self.metric.units(self._source, self.targets)}
        return {"kind": "bootstrap", "replicates": drops[~undefined], **units}

    @cached_property
    def _source_resampled(self) -> Array:
        return self._resample(self._source)

    def _resample(self, predictions: Any) -> Array:
        """Compute the metric on each resample; NaN if it is undefined, such as if a class is missing."""
        random = np.random.default_rng(self.seed)
        values = np.full(REPLICATES, np.nan)
        if self.metric.tally is not None:
            tallies = np.asarray(self.metric.tally(predictions, self.targets), dtype=np.float64)
            for replicate in range(REPLICATES):
                chosen = random.integers(0, self._rows, self._rows)
                with suppress(*_UNDEFINED):
                    values[replicate] = self.metric.total(tallies[chosen].sum(axis=0))
            return values
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # a resample may lack a class, of which scikit-learn warns each time
            for replicate in range(REPLICATES):
                chosen = random.integers(0, self._rows, self._rows)
                with suppress(*_UNDEFINED):
                    given, wanted = (take_rows(value, chosen) for value in (predictions, self.targets))
                    values[replicate] = self.metric.value(given, wanted)
        return values

    @cached_property
    def _span(self) -> float:
        """The largest loss if rows get other rows' targets, in the metric's unit; 0 if unknown.

        It scales the possible loss of unseen rows: that no loss was seen is no proof, and not every metric is at most
        1.
        """
        others = self._roll(self._rows // 2)

        def score(wanted: Any) -> Array:
            rows = self.metric.rows(self._source, wanted)
            return np.asarray(self.metric.value(self._source, wanted) if rows is None else rows, dtype=np.float64)

        with suppress(Exception):  # a metric may not accept such targets, such as a class that the model does not have
            span = float(np.abs(score(self.targets) - score(others)).max())
            return span if np.isfinite(span) else 0.0
        return 0.0

    @cached_property
    def _direction_doubt(self) -> str:
        """Return a doubt if the source is better with any other rows' targets: then the direction may be wrong.

        If targets are unrelated to the predictions, the rows' own are the worst by chance once in ``ROLLS + 1`` times.
        """
        rolls = sorted({self._rows * number // (ROLLS + 1) for number in range(1, ROLLS + 1)})
        if self._rows <= ROLLS:
            return ""
        values: list[float] = []
        with warnings.catch_warnings(), suppress(Exception):  # as above
            warnings.simplefilter("ignore")  # about targets that belong to other rows
            values.extend(float(self.metric.value(self._source, self._roll(rows))) for rows in rolls)
        better = [self._sign * (value - self._value) > SAME_SCORE * abs(self._value) for value in values]
        if len(better) < ROLLS or not all(better):
            return ""
        name, way = self.metric.name, "higher" if self.metric.higher_is_better else "lower"
        found = f"{name!r} is better with the targets of other rows ({np.mean(values):.4g}) than with their own"
        check = "check the metric's HIGHER_IS_BETTER, and that the targets are the model's"
        return f"{found} ({self._value:.4g}), although {way} counts as better: {check}"

    def _roll(self, rows: int) -> Any:
        """Return the targets, each shifted by some rows."""
        return take_rows(self.targets, np.roll(np.arange(self._rows), rows))


def take_rows(value: Any, rows: Array) -> Any:
    """Return some rows of one array, or of each array by name except tables."""
    if not isinstance(value, Mapping):
        return value[rows]
    return {name: array if name.startswith(TABLE) else array[rows] for name, array in value.items()}
