"""Open estimators, describe what they take and return, and run them as their authors call them."""

from __future__ import annotations

import contextlib
import importlib
import json
import pickle
import sys
import warnings
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from hone_loading import require_cpu

Json = dict[str, Any]
Array = np.ndarray[Any, Any]

REFERENCE = "estimator.json"
CODE = "code"
_SAFE = frozenset(
    {
        "collections.OrderedDict",
        "collections.defaultdict",
        "lightgbm.basic.Booster",
        "lightgbm.sklearn.LGBMClassifier",
        "lightgbm.sklearn.LGBMRegressor",
        "numpy.dtype",
    }
)
"""Types that a skops file may hold beyond those that skops itself knows to be safe: those that MLflow adds."""


class Unsuited(Exception):  # noqa: N818 - a reason, not an error
    """Why an estimator is not taken."""


class BoosterModel:
    """A bare booster of LightGBM or XGBoost, called as a regressor: ``predict`` gives what the booster gives."""

    _estimator_type = "regressor"

    def __init__(self, booster: Any, threads: int) -> None:
        self.booster, self.threads = booster, threads
        of_lightgbm = type(booster).__module__.startswith("lightgbm")
        names = booster.feature_name() if of_lightgbm else booster.feature_names
        self.n_features_in_ = booster.num_feature() if of_lightgbm else booster.num_features()
        self._names = names
        if not of_lightgbm:
            booster.set_param({"nthread": threads})

    def predict(self, rows: Any) -> Array:
        """Return what the booster itself gives."""
        if type(self.booster).__module__.startswith("lightgbm"):
            return np.asarray(self.booster.predict(rows, num_threads=self.threads))
        import xgboost

        matrix = xgboost.DMatrix(rows, feature_names=self._names, nthread=self.threads)
        return np.asarray(self.booster.predict(matrix))


def open_estimator(job: Json) -> tuple[Any, list[str]]:
    """Return the estimator of a job's input, and warnings about how it was saved.

    Raises:
        PermissionError: It is a pickle, or holds types that are not known to be safe, and the recipe trusts no pickles.
        ValueError: It cannot be opened.
    """
    folder = Path(job["input"]["path"])
    reference = json.loads((folder / REFERENCE).read_text())
    path, trusted = _inside(folder, reference["file"]), "pickle" in job.get("trust", ())
    if (folder / CODE).is_dir() and trusted:
        sys.path.insert(0, str(folder / CODE))
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            estimator = _read(reference, path, trusted=trusted)
        except (PermissionError, OSError):
            raise
        except Exception as error:
            made = f", saved by version {reference['version']}" if reference.get("version") else ""
            raise ValueError(f"{path.name}{made}, cannot be opened: {type(error).__name__}: {error}") from error
    said = [f"{one.message}".strip().splitlines()[0] for one in caught if "ersion" in type(one.message).__name__]
    _limit_threads(estimator, job["threads"])
    if type(estimator).__name__ == "Booster":
        estimator = BoosterModel(estimator, job["threads"])
    return estimator, list(dict.fromkeys(said))


def _read(reference: Json, path: Path, *, trusted: bool) -> Any:
    match reference["serialization"]:
        case "xgboost":
            return _make_class(reference["class"], "xgboost", path)
        case "lightgbm":
            import lightgbm

            return lightgbm.Booster(model_file=str(path))
        case "skops":
            import skops.io

            found = set(skops.io.get_untrusted_types(file=path))
            if (strange := sorted(found - _SAFE)) and not trusted:
                what = f"{path.name} holds types that skops does not know to be safe ({', '.join(strange[:5])})"
                raise PermissionError(f"{what}; 'trust: [pickle]' would allow them")
            return skops.io.load(path, trusted=sorted(found))
    if not trusted:
        raise PermissionError(f"{path.name} is a pickle, which can run code; it is opened with 'trust: [pickle]' only")
    with path.open("rb") as stream:
        if reference["serialization"] == "cloudpickle":
            import cloudpickle

            return cloudpickle.load(stream)
        return pickle.load(stream)  # noqa: S301 - the recipe trusts it, and the worker is isolated


def _make_class(name: str, package: str, path: Path) -> Any:
    """Return a model of a class of a package, with the state that is in a file."""
    module, _, kind = name.rpartition(".")
    if module.partition(".")[0] != package:
        raise ValueError(f"{name} is no class of {package}")
    model = getattr(importlib.import_module(module), kind)()
    model.load_model(str(path))
    return model


def _inside(folder: Path, name: str) -> Path:
    path = (folder / name).resolve()
    if not path.is_relative_to(folder.resolve()):
        raise PermissionError(f"{name} is outside the model's folder")
    return path


def _limit_threads(estimator: Any, threads: int) -> None:
    """Give an estimator so many threads: those that ask for more, and gradient boosting, which takes all cores."""
    import threadpoolctl

    threadpoolctl.threadpool_limits(threads)
    if not hasattr(estimator, "get_params"):
        return
    with contextlib.suppress(Exception):  # an estimator of the author's own may have parameters that it cannot set
        found = estimator.get_params(deep=True)
        owners = {"": estimator, **found}
        for name, value in found.items():
            owner, _, last = name.rpartition("__")
            boosts = type(owners.get(owner)).__module__.partition(".")[0] in {"lightgbm", "xgboost"}
            if last == "n_jobs" and (value is not None or boosts):
                estimator.set_params(**{name: threads})


def find_last(estimator: Any) -> Any:
    """Return the last step of a pipeline, however deep, or the estimator itself."""
    while hasattr(estimator, "steps"):
        estimator = estimator.steps[-1][1]
    return estimator


def get(estimator: Any, name: str) -> Any:
    """Return an attribute; None where there is none, or where it raises, as attributes that are computed may."""
    try:
        return getattr(estimator, name)
    except Exception:  # noqa: BLE001 - NotFittedError and others
        return None


def is_classifier(estimator: Any) -> bool:
    """Return whether an estimator predicts classes."""
    from sklearn.base import is_classifier

    return not isinstance(estimator, BoosterModel) and bool(is_classifier(estimator))


def wants_frame(estimator: Any, specs: list[Json]) -> bool:
    """Return whether rows go to an estimator as a DataFrame: it knows its columns by name, or takes them one by one."""
    return is_split(specs) or get(estimator, "feature_names_in_") is not None


def is_split(specs: list[Json]) -> bool:
    """Return whether each column is an input of its own, and not a matrix."""
    return len(specs) > 1 or specs[0]["dtype"] == "str"


def make_rows(estimator: Any, specs: list[Json], feeds: Mapping[str, Array]) -> Any:
    """Return what the estimator takes of arrays by name: a matrix, or a DataFrame where it knows its columns."""
    if not wants_frame(estimator, specs):
        return feeds[specs[0]["name"]]
    import pandas as pd

    if is_split(specs):
        return pd.DataFrame(
            {
                spec["name"]: array.ravel().astype(object) if spec["dtype"] == "str" else array.ravel()
                for spec, array in ((spec, feeds[spec["name"]]) for spec in specs)
            }
        )
    return pd.DataFrame(feeds[specs[0]["name"]], columns=list(estimator.feature_names_in_))


class Session:
    """An estimator that is run as it is."""

    def __init__(self, job: Json) -> None:
        require_cpu(job)
        self._estimator, _ = open_estimator(job)
        self._specs = job["input"]["inputs"]
        self._classifies = is_classifier(self._estimator)
        self._scores = hasattr(self._estimator, "predict_proba")

    def run(self, feeds: dict[str, Array]) -> dict[str, Array]:
        """Return the labels and probabilities of a classifier, or what a regressor predicts, as (rows, numbers)."""
        rows = make_rows(self._estimator, self._specs, feeds)
        predicted = np.asarray(self._estimator.predict(rows))
        if not self._classifies:
            return {"variable": predicted.reshape(len(predicted), -1).astype(np.float32)}
        text = predicted.dtype.kind in "OU"
        outputs = {"label": predicted.astype(str) if text else predicted.astype(np.int64)}
        if self._scores:
            outputs["probabilities"] = np.asarray(self._estimator.predict_proba(rows)).astype(np.float32)
        return outputs

    def prepare(self, feeds: dict[str, Array]) -> Any:
        """Return the call that is timed: the author's own, on rows as the author has them."""
        rows = make_rows(self._estimator, self._specs, feeds)
        scores = self._classifies and self._scores
        return partial(self._estimator.predict_proba if scores else self._estimator.predict, rows)


def describe(job: Json) -> Json:
    """Return the tensors of an estimator, what the learner tells of it, and warnings; or why it is not taken."""
    estimator, said = open_estimator(job)
    try:
        inputs = _describe_inputs(estimator, job)
        outputs, about = _describe_outputs(estimator, inputs)
    except Unsuited as unsuited:
        return {"refused": str(unsuited)}
    names = get(estimator, "feature_names_in_")
    columns = (
        [spec["name"] for spec in inputs] if is_split(inputs) else None if names is None else list(map(str, names))
    )
    about |= {"class": type(estimator).__name__, "split": is_split(inputs)}
    about |= {"feature_names_in": columns} if columns else {}
    about |= {"n_features_in": int(count)} if (count := get(estimator, "n_features_in_")) is not None else {}
    return {"inputs": inputs, "outputs": outputs, "sklearn": about, **({"warnings": said} if said else {})}


def _describe_inputs(estimator: Any, job: Json) -> list[Json]:
    """Return the inputs that the recipe or the signature states, or a matrix of as many columns as were fitted."""
    stated, count = job["input"]["inputs"], get(estimator, "n_features_in_")
    if len(stated) == 1 and stated[0]["dtype"] != "str":
        (spec,) = stated
        if len(spec["shape"]) != 2:
            raise Unsuited(f"its input has the shape {spec['shape']}, and an estimator takes rows of columns")
        columns = spec["shape"][1] if isinstance(spec["shape"][1], int) else count
        name = "X" if spec["name"] == "input_0" else spec["name"]
        return [{"name": name, "dtype": spec["dtype"], "shape": ["batch", columns]}]
    if stated:
        return [dict(spec) for spec in stated]
    if count is None:
        raise Unsuited("neither its signature nor the estimator says what it takes: log it with a signature")
    return [{"name": "X", "dtype": "float64", "shape": ["batch", int(count)]}]


def _describe_outputs(estimator: Any, inputs: list[Json]) -> tuple[list[Json], Json]:
    if not hasattr(estimator, "predict"):
        raise Unsuited(f"{type(estimator).__name__} has no predict: it is neither a classifier nor a regressor")
    if not is_classifier(estimator):
        count, flat = _count_targets(estimator, inputs)
        return [{"name": "variable", "dtype": "float32", "shape": ["batch", count]}], {
            "kind": "regressor",
            "flat": flat,
        }
    classes = get(estimator, "classes_")
    if classes is None or isinstance(classes, list) or np.asarray(classes).ndim != 1:
        raise Unsuited(f"{type(estimator).__name__} predicts several labels for each row; one is taken")
    classes = np.asarray(classes)
    text = classes.dtype.kind in "OU"
    if text and not all(isinstance(one, str) for one in classes):
        raise Unsuited(f"its classes are neither numbers nor text, such as {classes[0]!r}")
    if classes.dtype.kind == "f" and (classes != np.floor(classes)).any():
        raise Unsuited("its classes are fractions")
    outputs: list[Json] = [{"name": "label", "dtype": "str" if text else "int64", "shape": ["batch"]}]
    if hasattr(estimator, "predict_proba"):
        outputs.append({"name": "probabilities", "dtype": "float32", "shape": ["batch", len(classes)]})
    known = "object" if classes.dtype.kind == "O" else classes.dtype.str
    return outputs, {"kind": "classifier", "classes": classes.tolist(), "classes_dtype": known}


def _count_targets(estimator: Any, inputs: list[Json]) -> tuple[int, bool]:
    """Return how many numbers a regressor predicts for each row, and whether they are an array of one dimension."""
    if not is_split(inputs):
        example = {inputs[0]["name"]: np.zeros((2, inputs[0]["shape"][1]), inputs[0]["dtype"])}
        found = np.asarray(estimator.predict(make_rows(estimator, inputs, example)))
        return found.reshape(2, -1).shape[1], found.ndim == 1
    weights = get(find_last(estimator), "coef_")  # its categories are not known: nothing can be predicted
    count = get(find_last(estimator), "n_outputs_") or (
        len(weights) if weights is not None and np.ndim(weights) == 2 else 1
    )
    return int(count), count == 1
