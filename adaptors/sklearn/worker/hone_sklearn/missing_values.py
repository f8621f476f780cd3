"""Find out whether an estimator accepts missing values, by running it on a row like those of its fit."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np

from hone_runtime.interfaces import texts

from . import estimators, parts

Json = dict[str, Any]


def find_missing(estimator: Any, specs: list[Json]) -> tuple[list[Json], list[str]]:
    """Return the inputs, and the names of text inputs that may have missing values.

    Integer inputs that may have missing values become fp64, which has NaN. If no row is found that the estimator
    accepts, nothing is known: then any text may be missing, until the estimator is run on the user's rows.
    """
    if not estimators.is_split(specs):
        return specs, []
    row = _make_row(estimator, specs)
    if not _takes(estimator, specs, row):
        return specs, [spec["name"] for spec in specs if spec["dtype"] == "str"]
    found, missing = list[Json](), list[str]()
    for spec in specs:
        if spec["dtype"] == "str":
            taken = _takes(estimator, specs, {**row, spec["name"]: texts.MISSING})
            missing += [spec["name"]] if taken else []
        elif spec["dtype"] == "int64":
            changed = {**spec, "dtype": "float64"}
            others = [changed if one is spec else one for one in specs]
            spec = changed if _takes(estimator, others, {**row, spec["name"]: np.nan}) else spec  # noqa: PLW2901
        found.append(spec)
    return found, missing


def find_shape(estimator: Any, specs: list[Json]) -> tuple[int, ...] | None:
    """Return the shape of an estimator's predictions for two rows; None if no accepted row is found."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about unusual values in the row
        try:
            rows = estimators.make_rows(estimator, specs, _repeat(specs, _make_row(estimator, specs)))
            return np.asarray(estimator.predict(rows)).shape
        except Exception:  # noqa: BLE001 - its steps may raise anything
            return None


def _make_row(estimator: Any, specs: list[Json]) -> Json:
    known = dict(list_known(estimator))
    return {spec["name"]: _make_value(spec, known.get(spec["name"])) for spec in specs}


def _repeat(specs: list[Json], row: Json) -> dict[str, Any]:
    """Return two equal rows, as a column of each input."""
    kinds = {spec["name"]: object if spec["dtype"] == "str" else spec["dtype"] for spec in specs}
    return {name: np.full((2, 1), row[name], kind) for name, kind in kinds.items()}


def _make_value(spec: Json, known: Any) -> Any:
    if known is not None:
        return known
    return "" if spec["dtype"] == "str" else 0


def _takes(estimator: Any, specs: list[Json], row: Json) -> bool:
    """Return whether an estimator accepts two equal rows."""
    feeds = _repeat(specs, row)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about unusual values in the row
        try:
            estimators.predict(estimator, specs, feeds)
        except Exception:  # noqa: BLE001 - its steps may raise anything
            return False
    return True


def list_known(estimator: Any) -> Iterator[tuple[str, Any]]:
    """Yield category columns, each with a category that the estimator was fitted on."""
    yield from ((name, known[0]) for name, known in estimators.find_categories(estimator).items() if known)
    if parts.chooses_columns(estimator):
        for _, step, columns in parts.get(estimator, "transformers_") or ():
            yield from _name_categories(step, columns)
    elif (names := parts.get(estimator, "feature_names_in_")) is not None:
        yield from _name_categories(parts.find_first(estimator), names)
    for _, part in parts.list_parts(estimator):
        yield from list_known(part)


def _name_categories(step: Any, columns: Any) -> Iterator[tuple[str, Any]]:
    """Yield some columns, each with a category that the encoder among a step's parts was fitted on."""
    for one in (step, *(part for _, part in parts.list_parts(step))):
        found = parts.get(one, "categories_")
        if isinstance(found, list) and np.ndim(columns) == 1 and len(found) == len(columns):
            for name, known in zip(columns, found, strict=True):
                values = [value for value in known.tolist() if not texts.is_missing(value)]
                if isinstance(name, str) and values:
                    yield name, values[0]
