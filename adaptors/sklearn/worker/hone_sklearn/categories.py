"""Columns of pandas' type ``category``: those that an estimator was fitted on, and the meaning of their numbers."""

from __future__ import annotations

import itertools
import json
import re
from collections.abc import Mapping
from typing import Any

import numpy as np

from .parts import find_only, get, list_parts

Categories = dict[str, list[Any]]
"""By the name of a column: its categories, each of which is represented by its index."""


def list_categories(estimator: Any) -> Categories:
    """Return the columns whose categories an estimator numbers itself, as texts or numbers; empty if absent.

    Numeric columns that scikit-learn treats as categories count as ordinary columns.

    Raises:
        LookupError: There are some, but the estimator does not record in which columns.
    """
    model = find_only(estimator)
    names = _list_names(model)
    if (booster := get(model, "booster_")) is not None:
        return _list_of_lightgbm(booster, names)
    if get(model, "enable_categorical"):
        return _list_of_xgboost(model.get_booster(), names)
    if get(model, "is_categorical_") is None:
        return {}
    marked = [name for name, one in zip(names, model.is_categorical_, strict=True) if one]
    return {name: known for name, known in zip(marked, list_encoded(model), strict=True) if is_text(known)}


def _find_known(estimator: Any) -> Categories:
    try:
        return list_categories(estimator)
    except (LookupError, AttributeError):  # a part that numbers none
        return {}


def has_categories(estimator: Any) -> bool:
    """Return whether an estimator numbers the categories of some columns itself."""
    try:
        return bool(list_categories(estimator))
    except LookupError:
        return True


def find_cut(estimator: Any) -> str | None:
    """Return the first category, or class, that ends with a NUL character; None if absent.

    NumPy's text arrays drop it, so that it would be another category in the converted model.
    """
    found = [*_get_lists(estimator), *_find_known(estimator).values()]
    texts = (one for known in found for one in np.ravel(np.asarray(known, object)).tolist() if isinstance(one, str))
    cut = next((one for one in texts if one.endswith("\0")), None)
    if cut is not None:
        return cut
    return next((category for _, part in list_parts(estimator) if (category := find_cut(part)) is not None), None)


def _get_lists(estimator: Any) -> list[Any]:
    """Return the categories of an encoder's columns, and the classes of a classifier."""
    known, classes = get(estimator, "categories_"), get(estimator, "classes_")
    return [*(known if isinstance(known, list) else ()), *([classes] if isinstance(classes, np.ndarray) else ())]


def list_encoded(model: Any) -> list[list[Any]]:
    """Return the categories of each category column of histogram gradient boosting, except missing ones."""
    encoder = model._preprocessor.named_transformers_["encoder"]  # noqa: SLF001 - there is no public one
    return [[one for one in known.tolist() if one is not None and one == one] for known in encoder.categories_]  # noqa: PLR0124


def _list_names(model: Any) -> list[str]:
    names = get(model, "feature_names_in_")
    count = int(get(model, "n_features_in_") or 0)
    return [*map(str, names)] if names is not None else [f"{place}" for place in range(count)]


def _list_of_lightgbm(booster: Any, names: list[str]) -> Categories:
    known = booster.pandas_categorical
    if not known:
        return {}
    found = re.search(r"^\[categorical_feature: ([\d,]+)\]$", booster.model_to_string(num_iteration=1), re.MULTILINE)
    places = [int(place) for place in found[1].split(",")] if found else []
    if len(places) != len(known):
        raise LookupError("some of its categories are ordered, which are numbers to LightGBM")
    return {names[place]: [*one] for place, one in zip(places, known, strict=True)}


def _list_of_xgboost(booster: Any, names: list[str]) -> Categories:
    marked = [name for name, kind in zip(names, booster.feature_types or (), strict=False) if kind == "c"]
    if not marked:
        return {}
    document = json.loads(bytes(booster.save_raw("json")))["learner"]["gradient_booster"]
    kept = document.get("model", document.get("gbtree", {}).get("model", {})).get("cats", {}).get("enc", ())
    if len(kept) != len(booster.feature_types):
        raise LookupError("it was saved without its categories, by a version of XGBoost before 3.1")
    return {name: _read_encoded(one) for name, one in zip(names, kept, strict=True) if name in marked}


def _read_encoded(encoded: Any) -> list[Any]:
    """Return the categories of one column of XGBoost: texts as concatenated bytes, or numbers."""
    if "offsets" not in encoded:
        return [*encoded["values"]]
    text, ends = bytes(byte % 256 for byte in encoded["values"]), encoded["offsets"]
    return [text[first:last].decode() for first, last in itertools.pairwise(ends)]


def is_text(known: list[Any]) -> bool:
    """Return whether categories are text."""
    return any(isinstance(one, str) for one in known)


def make_column(column: Any, known: list[Any]) -> Any:
    """Return a column as pandas' type ``category``; integers if the known categories are integers."""
    import pandas as pd

    made = pd.Categorical(column)
    found = made.categories
    if found.dtype.kind == "f" and all(isinstance(one, int | np.integer) for one in known) and (found % 1 == 0).all():
        return made.rename_categories(found.astype(np.int64))
    return made


def check_known(estimator: Any, columns: Mapping[str, Any]) -> None:
    """Refuse categories that XGBoost was not fitted on: version 3.2 confuses some with others.

    Raises:
        ValueError: There is such a category.
    """
    known = list_categories(estimator) if get(find_only(estimator), "enable_categorical") else {}
    for name, values in known.items():
        if strange := [one for one in columns[name].categories if one not in values]:
            raise ValueError(f"column {name!r} has {strange[0]!r}, a category that the model was not fitted on")
