"""The converters of column steps: encoders of categories, and imputers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from onnx import TensorProto

from hone_runtime.interfaces import texts

from .graph_nodes import ML, Writer


def name_missing(encoder: Any) -> Any:
    """Return an encoder whose category of missing text is the text that represents it in tensors."""
    encoder.categories_ = [_name_missing(categories) for categories in encoder.categories_]
    return encoder


def _name_missing(categories: Any) -> Any:
    return texts.mark_missing(categories) if _is_text(categories) else categories


def _is_text(categories: Any) -> bool:
    """Return whether categories are text, even if one of them is a missing value."""
    return any(isinstance(one, str) for one in categories.tolist())


def plan_imputer(imputer: Any) -> Any:
    """Return an imputer with a missing value that skl2onnx accepts: a float, or the text that represents it."""
    if _is_text(np.asarray(imputer.statistics_, object)):
        stated = isinstance(imputer.missing_values, str)
        imputer.missing_values = imputer.missing_values if stated else texts.MISSING
    elif isinstance(imputer.missing_values, int | np.integer):
        imputer.missing_values = float(imputer.missing_values)
    return imputer


def groups(encoder: Any) -> bool:
    """Return whether a column encoder groups rare categories, or maps unknown ones to these."""
    return bool(encoder._infrequent_enabled) or encoder.handle_unknown not in {"error", "ignore"}  # noqa: SLF001


def count_columns(encoder: Any) -> int:
    """Return how many columns an encoder outputs."""
    return int(sum(encoder._n_features_outs))  # noqa: SLF001 - there is no public one


def mend_shapes(calculate: Callable[[Any], None]) -> Callable[[Any], None]:
    """Return a function that sets the shape of an encoder's table, with the correct number of columns."""

    def mended(operator: Any) -> None:
        calculate(operator)
        output = operator.outputs[0]
        output.type = type(output.type)([output.type.shape[0], count_columns(operator.raw_operator)])

    return mended


def convert_groups(scope: Any, operator: Any, container: Any) -> None:
    """Write an encoder that groups rare categories: skl2onnx supports it only for some kinds of inputs."""
    writer, encoder = Writer(scope, container), operator.raw_operator
    columns = [(one, place) for one in operator.inputs for place in range(one.type.shape[1])]
    made = [
        _encode_column(writer, encoder, at, name=_take(writer, one, place), kind=type(one.type).__name__)
        for at, (one, place) in enumerate(columns)
    ]
    joined, shape = writer.add("Concat", *made, axis=1), writer.keep([-1, count_columns(encoder)], np.int64)
    writer.add("Reshape", joined, shape, output=operator.outputs[0].full_name)


def _take(writer: Writer, variable: Any, place: int) -> str:
    name = str(variable.full_name)
    return name if variable.type.shape[1] == 1 else writer.choose_columns(name, [place])


def _encode_column(writer: Writer, encoder: Any, at: int, *, name: str, kind: str) -> str:
    """Write one column as the columns of its categories, and return their name."""
    mapped = encoder._default_to_infrequent_mappings[at] if encoder._infrequent_enabled else None  # noqa: SLF001
    places = np.arange(len(encoder.categories_[at])) if mapped is None else np.asarray(mapped)
    count, unknown = int(places.max()) + 1, -1
    if mapped is not None and encoder.handle_unknown in {"infrequent_if_exist", "warn"}:
        unknown = count - 1  # the last column is that of the rare categories
    name, keys = _make_keys(writer, name, kind, encoder.categories_[at])
    number = writer.add("LabelEncoder", name, domain=ML, values_int64s=places.tolist(), default_int64=unknown, **keys)
    zeros = int(encoder.handle_unknown != "error")
    made = writer.add("OneHotEncoder", number, domain=ML, cats_int64s=[*range(count)], zeros=zeros)
    dropped = encoder._drop_idx_after_grouping  # noqa: SLF001
    kept = [place for place in range(count) if dropped is None or place != dropped[at]]
    flat = writer.add("Reshape", made, writer.keep([-1, count], np.int64))
    return flat if len(kept) == count else writer.choose_columns(flat, kept)


def _make_keys(writer: Writer, name: str, kind: str, categories: Any) -> tuple[str, dict[str, Any]]:
    """Return a column of skl2onnx's kind by name, for ``LabelEncoder``, and the categories as its keys."""
    if kind == "StringTensorType":
        return name, {"keys_strings": [str(one) for one in _name_missing(categories)]}
    if kind == "Int64TensorType":
        return name, {"keys_int64s": [int(one) for one in categories]}
    return writer.add("Cast", name, to=TensorProto.FLOAT), {"keys_floats": [float(one) for one in categories]}


def convert_ordinal(scope: Any, operator: Any, container: Any) -> None:
    """Write the number of each category; skl2onnx also numbers a missing one."""
    writer, encoder, made = Writer(scope, container), operator.raw_operator, list[str]()
    columns = [(one, place) for one in operator.inputs for place in range(one.type.shape[1])]
    unknown = np.nan if encoder.unknown_value is None else float(encoder.unknown_value)
    for at, (one, place) in enumerate(columns):
        known = encoder.categories_[at]
        mapped = encoder._default_to_infrequent_mappings[at] if encoder._infrequent_enabled else None  # noqa: SLF001
        numbers = iter(range(len(known)) if mapped is None else mapped)  # there is no number for the missing category
        missing = float(encoder.encoded_missing_value)
        values = [missing if texts.is_missing(value) else float(next(numbers)) for value in known.tolist()]
        name, keys = _make_keys(writer, _take(writer, one, place), type(one.type).__name__, known)
        made.append(writer.add("LabelEncoder", name, domain=ML, values_floats=values, default_float=unknown, **keys))
    whole = np.issubdtype(encoder.dtype, np.integer)
    joined = writer.add("Concat", *made, axis=1)
    writer.add(
        "Cast", joined, to=TensorProto.INT64 if whole else TensorProto.FLOAT, output=operator.outputs[0].full_name
    )
