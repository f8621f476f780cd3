"""Describe the inputs and outputs of estimators, or explain why they are refused."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np

from hone_runtime.worker.refusal import UnsuitedError

from . import categories, estimators, missing_values, parts

Json = dict[str, Any]

_OTHERS = {
    "outlier_detector": "an outlier detector",
    "clusterer": "a clusterer",
    "density_estimator": "a density estimator",
}
"""Nouns for the estimator types in scikit-learn's tags that predict neither classes nor numbers."""


def describe(job: Json) -> Json:
    """Return the tensors of an estimator, its description for the learner, and warnings; or why it is refused."""
    try:
        estimator, notices = estimators.open_estimator(job)
    except estimators.UntrustedError as error:
        return {"refused": str(error), "slug": "pickle-not-trusted"}
    except UnsuitedError as unsuited:
        return {"refused": str(unsuited), "slug": unsuited.slug}
    try:
        inputs, missing = missing_values.find_missing(estimator, _describe_inputs(estimator, job))
        outputs, about = _describe_outputs(estimator, inputs)
    except UnsuitedError as unsuited:
        return {"refused": str(unsuited)}
    known = job["input"].get("metadata", {}).get("sklearn") or {}
    stated = known.get("columns") or []
    if not stated and isinstance(estimator, estimators.BoosterModel):
        stated = [*map(str, estimator.names or ())]
    columns = [spec["name"] for spec in inputs] if estimators.is_split(inputs) else _list_names(estimator, stated)
    about |= {"class": type(estimator).__name__, "split": estimators.is_split(inputs)}
    about |= {"feature_names_in": columns} if columns else {"columns": stated} if stated else {}
    about |= {"missing": missing} if missing else {}
    about |= {"signature": known["signature"]} if "signature" in known else {}
    about |= {"n_features_in": int(count)} if (count := parts.get(estimator, "n_features_in_")) is not None else {}
    about |= {"predict_fn": method} if (method := estimators.read_reference(job).get("predict_fn")) else {}
    return {"inputs": inputs, "outputs": outputs, "sklearn": about, **({"warnings": notices} if notices else {})}


def _list_names(estimator: Any, stated: list[str]) -> list[str]:
    """Return the names of the columns that an estimator was fitted on; names with spaces are from the signature."""
    found = [*map(str, names)] if (names := parts.get(estimator, "feature_names_in_")) is not None else []
    return stated if found == [name.replace(" ", "_") for name in stated] else found  # LightGBM replaces spaces


def _describe_inputs(estimator: Any, job: Json) -> list[Json]:
    """Return the inputs in the recipe or the signature, or a matrix with as many columns as were fitted."""
    if (first := find_text_step(estimator)) is not None:
        raise UnsuitedError(f"{type(first).__name__} takes a list of texts, and an estimator is given rows of columns")
    stated, count = job["input"]["inputs"], parts.get(estimator, "n_features_in_")
    if len(stated) < 2 and not any(spec["dtype"] == "str" for spec in stated):
        known = dict(missing_values.list_known(estimator))
        names = parts.get(estimator, "feature_names_in_")
        numbered = categories.has_categories(estimator)
        if names is not None and (numbered or any(isinstance(one, str) for one in known.values())):
            return [_describe_column(str(name), known.get(str(name))) for name in names]
    if len(stated) == 1 and stated[0]["dtype"] != "str":
        (spec,) = stated
        if len(spec["shape"]) != 2:
            raise UnsuitedError(f"its input has the shape {spec['shape']}, and an estimator takes rows of columns")
        columns = spec["shape"][1] if isinstance(spec["shape"][1], int) else count
        name = "X" if spec["name"] == "input_0" else spec["name"]
        return [{"name": name, "dtype": spec["dtype"], "shape": ["batch", columns]}]
    if stated:
        return [dict(spec) for spec in stated]
    if count is None:
        raise UnsuitedError("neither its signature nor the estimator says what it takes: log it with a signature")
    return [{"name": "X", "dtype": "float64", "shape": ["batch", int(count)]}]


def _describe_column(name: str, known: Any) -> Json:
    """Return the input of a column, given one of its categories; None if it has none."""
    return {"name": name, "dtype": "str" if isinstance(known, str) else "float64", "shape": ["batch", 1]}


def _describe_outputs(estimator: Any, inputs: list[Json]) -> tuple[list[Json], Json]:
    _refuse_kind(estimator)
    if not hasattr(estimator, "predict"):
        raise UnsuitedError(f"{type(estimator).__name__} has no predict: it is neither a classifier nor a regressor")
    if not estimators.is_classifier(estimator):
        count, flat = _count_targets(estimator, inputs)
        return [{"name": "variable", "dtype": "float32", "shape": ["batch", count]}], {
            "kind": "regressor",
            "flat": flat,
        }
    classes = parts.get(estimator, "classes_")
    if classes is None or isinstance(classes, list) or np.asarray(classes).ndim != 1 or _labels_several(estimator):
        name = type(parts.find_last(estimator)).__name__
        raise UnsuitedError(f"{name} predicts several labels for each row; one is taken")
    classes = np.asarray(classes)
    text = classes.dtype.kind in "OU"
    if text and not all(isinstance(one, str) for one in classes):
        raise UnsuitedError(f"its classes are neither numbers nor text, such as {classes[0]!r}")
    if classes.dtype.kind == "f" and (classes != np.floor(classes)).any():
        raise UnsuitedError("its classes are fractions")
    outputs: list[Json] = [{"name": "label", "dtype": "str" if text else "int64", "shape": ["batch"]}]
    if hasattr(estimator, "predict_proba"):
        outputs.append({"name": "probabilities", "dtype": "float32", "shape": ["batch", len(classes)]})
    known = "object" if classes.dtype.kind == "O" else classes.dtype.str
    return outputs, {"kind": "classifier", "classes": classes.tolist(), "classes_dtype": known}


def _refuse_kind(estimator: Any) -> None:
    """Refuse estimators that scikit-learn's own tags declare as neither classifiers nor regressors.

    Raises:
        UnsuitedError: The estimator is neither.
    """
    from sklearn.utils import get_tags

    try:
        kind = get_tags(estimator).estimator_type
    except Exception:  # noqa: BLE001 - a booster, or an estimator of the author's own, may have none
        return
    if noun := _OTHERS.get(kind):
        what = f"{type(parts.find_last(estimator)).__name__} is {noun}"
        raise UnsuitedError(f"{what}, and its predictions cannot be judged: a classifier or a regressor is taken")


def _labels_several(estimator: Any) -> bool:
    """Return whether a classifier predicts several labels for a row, even if it lists its classes only once."""
    last = parts.find_last(estimator)
    count = parts.get(last, "n_features_in_")
    if count is None:
        return False
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about names of columns
        try:
            return bool(np.ndim(last.predict(np.zeros((2, int(count))))) > 1)
        except Exception:  # noqa: BLE001 - one that takes text, of which no row can be made here
            return False


def _count_targets(estimator: Any, inputs: list[Json]) -> tuple[int, bool]:
    """Return how many numbers a regressor predicts for each row, and whether its output is one-dimensional."""
    if not estimators.is_split(inputs):
        example = {inputs[0]["name"]: np.zeros((2, inputs[0]["shape"][1]), inputs[0]["dtype"])}
        found = np.asarray(estimator.predict(estimators.make_rows(estimator, inputs, example)))
        return found.reshape(2, -1).shape[1], found.ndim == 1
    if (shape := missing_values.find_shape(estimator, inputs)) is not None:
        return int(np.prod(shape[1:], dtype=int)), len(shape) == 1
    last = parts.find_last(estimator)  # nothing can be predicted without an accepted row
    weights = parts.get(last, "coef_")
    count = parts.get(last, "n_outputs_") or (len(weights) if weights is not None and np.ndim(weights) == 2 else 1)
    return int(count), count == 1


def find_text_step(estimator: Any) -> Any:
    """Return the step that accepts an estimator's rows as a list of texts; None if absent."""
    first = parts.find_first(estimator)
    if takes_texts(first):
        return first
    beside = () if parts.chooses_columns(first) else parts.list_parts(first)
    return next((found for _, part in beside if (found := find_text_step(part)) is not None), None)


def takes_texts(step: Any) -> bool:
    """Return whether a step accepts a list of texts, like vectorizers: for a table it would read the column names."""
    from sklearn.utils import get_tags

    try:
        tags = get_tags(step).input_tags
    except Exception:  # noqa: BLE001 - a step of the author's own, or "passthrough", may have none
        return False
    return bool(tags.string and not tags.two_d_array)
