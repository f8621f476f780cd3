"""The converters of numeric steps: each computes like scikit-learn, in fp64, and in fp32 for fp32 rows."""

from __future__ import annotations

from collections.abc import Callable
from numbers import Real
from typing import Any

import numpy as np
from onnx import TensorProto

from .graph_nodes import Array, Converter, Writer

Write = Callable[["Numbers", Any, str], str]
"""Adds the nodes of a step, given the estimator and the name of its table; returns the name of the result."""


class Numbers:
    """Adds arithmetic over a table in fp64, or in fp32 with every result rounded from fp64 as in scikit-learn."""

    def __init__(self, writer: Writer, *, single: bool) -> None:
        self.writer, self._single = writer, single
        self.dtype: Any = np.float32 if single else np.float64
        self.type = TensorProto.FLOAT if single else TensorProto.DOUBLE

    def take(self, inputs: Any) -> str:
        """Return the name of the table of an operator's inputs, in the type of the numbers."""
        names = [self._cast(one) for one in inputs]
        return names[0] if len(names) == 1 else self.writer.add("Concat", *names, axis=1)

    def _cast(self, variable: Any) -> str:
        kept = type(variable.type).__name__ == ("FloatTensorType" if self._single else "DoubleTensorType")
        name = str(variable.full_name)
        return name if kept else self.writer.add("Cast", name, to=self.type)

    def keep(self, values: Any) -> str:
        """Add a constant of the type of the numbers."""
        return self.writer.keep(values, self.dtype)

    def compute(self, kind: str, table: str, values: Any) -> str:
        """Add an operation with constants, like NumPy's in-place one: in fp64, and rounded to the table's type."""
        if not self._single:
            return self.writer.add(kind, table, self.keep(values))
        wide = self.writer.add("Cast", table, to=TensorProto.DOUBLE)
        return self.narrow(self.writer.add(kind, wide, self.writer.keep(values, np.float64)))

    def widen(self, table: str) -> str:
        """Return the name of a table in fp64."""
        return self.writer.add("Cast", table, to=TensorProto.DOUBLE) if self._single else table

    def narrow(self, table: str) -> str:
        """Return the name of a table in fp64 as the type of the numbers."""
        return self.writer.add("Cast", table, to=TensorProto.FLOAT) if self._single else table


def replace(write: Write) -> Callable[[Converter], Converter]:
    """Return a decorator that replaces a converter by one for numbers; text is left to the original one."""

    def replaced(convert: Converter) -> Converter:
        def written(scope: Any, operator: Any, container: Any) -> None:
            kinds = {type(one.type).__name__ for one in operator.inputs}
            if "StringTensorType" in kinds:
                convert(scope, operator, container)
                return
            numbers = Numbers(Writer(scope, container), single=kinds == {"FloatTensorType"})
            made = write(numbers, operator.raw_operator, numbers.take(operator.inputs))
            numbers.writer.add("Identity", made, output=operator.outputs[0].full_name)

        return written

    return replaced


def mend_shapes(calculate: Callable[[Any], None]) -> Callable[[Any], None]:
    """Return a function that sets the type of a numeric step: fp32 for fp32 rows, else fp64; text is unchanged."""

    def mended(operator: Any) -> None:
        from skl2onnx.common.data_types import DoubleTensorType, FloatTensorType

        calculate(operator)
        kinds = {type(one.type) for one in operator.inputs}
        output = operator.outputs[0]
        if not any(kind.__name__ == "StringTensorType" for kind in kinds):
            output.type = (FloatTensorType if kinds == {FloatTensorType} else DoubleTensorType)(output.type.shape)

    return mended


def write_standard(numbers: Numbers, model: Any, table: str) -> str:
    """Write StandardScaler, which rounds its mean and scale to the type of the rows."""
    if model.with_mean and model.mean_ is not None:
        table = numbers.writer.add("Sub", table, numbers.keep(model.mean_))
    if model.with_std and model.scale_ is not None:
        table = numbers.writer.add("Div", table, numbers.keep(model.scale_))
    return table


def write_robust(numbers: Numbers, model: Any, table: str) -> str:
    """Write RobustScaler."""
    if model.with_centering and model.center_ is not None:
        table = numbers.compute("Sub", table, model.center_)
    if model.with_scaling and model.scale_ is not None:
        table = numbers.compute("Div", table, model.scale_)
    return table


def write_largest(numbers: Numbers, model: Any, table: str) -> str:
    """Write MaxAbsScaler."""
    table = numbers.compute("Div", table, model.scale_)
    return _clip(numbers, table, -1.0, 1.0) if getattr(model, "clip", False) else table


def write_range(numbers: Numbers, model: Any, table: str) -> str:
    """Write MinMaxScaler."""
    table = numbers.compute("Add", numbers.compute("Mul", table, model.scale_), model.min_)
    return _clip(numbers, table, *model.feature_range) if model.clip else table


def _clip(numbers: Numbers, table: str, low: float, high: float) -> str:
    return numbers.writer.add("Clip", table, numbers.keep(low), numbers.keep(high))


def write_binary(numbers: Numbers, model: Any, table: str) -> str:
    """Write Binarizer, which compares numbers in their own type."""
    wide = isinstance(model.threshold, np.float64)  # NumPy then compares fp32 in fp64, but not for Python's own float
    compared, dtype = (numbers.widen(table), np.float64) if wide else (table, numbers.dtype)
    above = numbers.writer.add("Greater", compared, numbers.writer.keep(model.threshold, dtype))
    return numbers.writer.add("Where", above, numbers.keep(1.0), numbers.keep(0.0))


def write_bins(numbers: Numbers, model: Any, table: str) -> str:
    """Write KBinsDiscretizer: the number of inner edges at or below each number, or a column for each bin."""
    writer, counts = numbers.writer, np.asarray(model.n_bins_, np.int64)
    edges = np.full((len(counts), max(counts.max() - 1, 1)), np.inf)
    for row, known in zip(edges, model.bin_edges_, strict=True):
        row[: len(known) - 2] = known[1:-1]
    if model.dtype == np.float32:
        table = writer.add("Cast", table, to=TensorProto.FLOAT)
    wide = writer.add("Unsqueeze", writer.add("Cast", table, to=TensorProto.DOUBLE), writer.keep([2], np.int64))
    passed = writer.add("Cast", writer.add("GreaterOrEqual", wide, writer.keep(edges, np.float64)), to=numbers.type)
    if model.encode == "ordinal":
        return writer.add("ReduceSum", passed, writer.keep([2], np.int64), keepdims=0)
    bins = writer.add("ReduceSum", passed, writer.keep([2], np.int64), keepdims=1)
    found = writer.add("Cast", writer.add("Equal", bins, numbers.keep(np.arange(counts.max()))), to=numbers.type)
    flat = writer.add("Reshape", found, writer.keep([-1, len(counts) * counts.max()], np.int64))
    kept = np.arange(counts.max()) < counts[:, None]
    return writer.choose_columns(flat, np.flatnonzero(kept).tolist())


def write_imputer(numbers: Numbers, model: Any, table: str) -> str:
    """Write SimpleImputer; columns without a value at its fit are left out, as in scikit-learn.

    Raises:
        NotImplementedError: Numbers are imputed by a text, or the missing value is not a number, such as None.
    """
    if texts := [one for one in model.statistics_ if isinstance(one, str)]:
        raise NotImplementedError(f"numbers are imputed by {texts[0]!r}")
    if not isinstance(model.missing_values, Real):
        raise NotImplementedError(f"missing_values={model.missing_values!r} of numbers has no converter")
    writer, statistics = numbers.writer, np.asarray(model.statistics_, np.float64)
    kept = np.isfinite(statistics) | bool(model.keep_empty_features)
    if not kept.all():
        table, statistics = writer.choose_columns(table, np.flatnonzero(kept).tolist()), statistics[kept]
    missing = float(model.missing_values)
    found = writer.add("IsNaN", table) if np.isnan(missing) else writer.add("Equal", table, numbers.keep(missing))
    return writer.add("Where", found, numbers.keep(statistics), table)


def write_products(numbers: Numbers, model: Any, table: str) -> str:
    """Write PolynomialFeatures: for each degree all products at once, each multiplied in scikit-learn's order."""
    writer = numbers.writer
    wanted = [tuple(np.repeat(np.arange(len(powers)), powers).tolist()) for powers in model.powers_]
    level: dict[tuple[int, ...], int] = {(place,): place for place in range(model.n_features_in_)}
    known, made, at = dict(level), [table], len(level)
    products = table
    for degree in range(2, max(map(len, wanted)) + 1):
        places = sorted({tuple(one[-degree:]) for one in wanted if len(one) >= degree})
        rest = writer.choose_columns(products, [level[one[1:]] for one in places])
        first = writer.choose_columns(table, [one[0] for one in places])
        products = writer.add("Mul", rest, first)
        made.append(products)
        level = {one: place for place, one in enumerate(places)}
        known |= {one: at + place for one, place in level.items()}
        at += len(places)
    if () in wanted:
        column = writer.choose_columns(table, [0])
        made.append(writer.add("Expand", numbers.keep([[1.0]]), writer.add("Shape", column)))
        known[()] = at
    joined = writer.add("Concat", *made, axis=1) if len(made) > 1 else table
    return writer.choose_columns(joined, [known[one] for one in wanted])


def write_power(numbers: Numbers, model: Any, table: str) -> str:
    """Write PowerTransformer; it uses ONNX Runtime's logarithms and exponentials, which are close to SciPy's."""
    write = _write_box_cox if model.method == "box-cox" else _write_yeo_johnson
    made = numbers.narrow(write(numbers.writer, np.asarray(model.lambdas_, np.float64), numbers.widen(table)))
    return write_standard(numbers, model._scaler, made) if model.standardize else made  # noqa: SLF001 - there is no public one


def _write_box_cox(writer: Writer, lambdas: Array, table: str) -> str:
    return _raise(writer, writer.add("Log", table), lambdas)


def _write_yeo_johnson(writer: Writer, lambdas: Array, table: str) -> str:
    zero, one = writer.keep(0.0, np.float64), writer.keep(1.0, np.float64)
    positive = writer.add("GreaterOrEqual", table, zero)
    size = writer.add("Log", writer.add("Add", writer.add("Abs", table), one))
    above, below = _raise(writer, size, lambdas), writer.add("Neg", _raise(writer, size, 2 - lambdas))
    return writer.add("Where", positive, above, below)


def _raise(writer: Writer, logarithm: str, lambdas: Array) -> str:
    """Write (exp(lambda * x) - 1) / lambda by columns, which is x if lambda is zero."""
    none = np.abs(lambdas) < np.finfo(np.float64).eps
    safe = writer.keep(np.where(none, 1.0, lambdas), np.float64)
    raised = writer.add("Sub", writer.add("Exp", writer.add("Mul", logarithm, safe)), writer.keep(1.0, np.float64))
    return writer.add("Where", writer.keep(none, np.bool_), logarithm, writer.add("Div", raised, safe))
