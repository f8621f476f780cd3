"""Open estimators, describe their inputs and outputs, and run them as their authors call them."""

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

from hone_runtime.interfaces import texts
from hone_runtime.worker.imports import require_cpu
from hone_runtime.worker.pickles import check_code
from hone_runtime.worker.refusal import UnsuitedError

from . import categories, versions
from .parts import get

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
"""Types that a skops file may contain beyond those that skops itself considers safe: those that MLflow adds."""


class BoosterModel:
    """A bare booster of LightGBM or XGBoost, called as a regressor: ``predict`` returns the booster's output."""

    _estimator_type = "regressor"

    def __init__(self, booster: Any, threads: int) -> None:
        self.booster, self.threads = booster, threads
        of_lightgbm = type(booster).__module__.startswith("lightgbm")
        names = booster.feature_name() if of_lightgbm else booster.feature_names
        self.n_features_in_ = booster.num_feature() if of_lightgbm else booster.num_features()
        self.names = names
        if not of_lightgbm:
            booster.set_param({"nthread": threads})

    def predict(self, rows: Any) -> Array:
        """Return the booster's own output."""
        if type(self.booster).__module__.startswith("lightgbm"):
            return np.asarray(self.booster.predict(rows, num_threads=self.threads))
        import xgboost

        matrix = xgboost.DMatrix(rows, feature_names=self.names, nthread=self.threads)
        return np.asarray(self.booster.predict(matrix))


def read_reference(job: Json) -> Json:
    """Return the reference that determines how the estimator of a job's input is opened and called."""
    reference: Json = json.loads((Path(job["input"]["path"]) / REFERENCE).read_text())
    return reference


class UntrustedError(PermissionError):
    """A file may run code when it is opened, and the recipe does not trust it."""


def open_estimator(job: Json) -> tuple[Any, list[str]]:
    """Return the estimator of a job's input, and warnings about how it was saved.

    Raises:
        UntrustedError: It is a pickle, or contains types not known to be safe, and the recipe trusts no pickles.
        UnsuitedError: It does not fit the versions here, or needs a package that is not here.
        ValueError: It cannot be opened.
    """
    folder, reference = Path(job["input"]["path"]), read_reference(job)
    path, trusted = _inside(folder, reference["file"]), "pickle" in job.get("trust", ())
    if (folder / CODE).is_dir() and trusted:
        sys.path.insert(0, str(folder / CODE))
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            estimator = _read(reference, path, trusted=trusted)
        except (PermissionError, OSError):
            raise
        except UnsuitedError:
            raise
        except Exception as error:
            raise versions.explain_failure(reference, path, error) from error
    said = [f"{one.message}".strip().splitlines()[0] for one in caught if "ersion" in type(one.message).__name__]
    if said:
        said.append(f"{path.name}: what is measured is the model as it opens here; {versions.name_versions(reference)}")
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
            logged = {name for name in reference.get("trusted", ()) if is_own_class(name)}
            if (strange := sorted(found - _SAFE - logged)) and not trusted:
                what = f"{path.name} holds types that skops does not know to be safe ({', '.join(strange[:5])})"
                libraries = "scikit-learn's, XGBoost's, LightGBM's or numpy's own"
                cure = f"name them in skops_trusted_types of log_model if they are {libraries}"
                raise UntrustedError(f"{what}; {cure}; 'trust: [pickle]' would allow them")
            return skops.io.load(path, trusted=sorted(found))
    if not trusted:
        raise UntrustedError(f"{path.name} is a pickle, which can run code; it is opened with 'trust: [pickle]' only")
    if reference["serialization"] == "joblib":
        import joblib

        return joblib.load(path)  # raw arrays between its instructions: no list of them can be read
    check_code(path, reference.get("python", ""))
    with path.open("rb") as stream:
        if reference["serialization"] == "cloudpickle":
            import cloudpickle

            return cloudpickle.load(stream)
        return pickle.load(stream)  # noqa: S301 - the recipe trusts it, and the worker is isolated


def is_own_class(name: str) -> bool:
    """Return whether a type named by an author is a class of the libraries that no file state can make harmful.

    A class with clean-up code could be made to delete any folder, or to free any memory, unless it validates the state
    that it is given.
    """
    module, _, kind = name.rpartition(".")
    if module.partition(".")[0] not in versions.LIBRARIES:
        return False
    try:
        found = getattr(importlib.import_module(module), kind, None)
        return isinstance(found, type) and (hasattr(found, "__setstate__") or not hasattr(found, "__del__"))
    except Exception:  # noqa: BLE001 - of a module that this version lacks, or that cannot be imported
        return False


def _make_class(name: str, package: str, path: Path) -> Any:
    """Return a model of a package's class, with the state from a file."""
    module, _, kind = name.rpartition(".")
    if module.partition(".")[0] != package:
        raise ValueError(f"{name} is not a class of {package}")
    model = getattr(importlib.import_module(module), kind)()
    model.load_model(str(path))
    return model


def _inside(folder: Path, name: str) -> Path:
    path = (folder / name).resolve()
    if not path.is_relative_to(folder.resolve()):
        raise PermissionError(f"{name} is outside the model's folder")
    return path


def _limit_threads(estimator: Any, threads: int) -> None:
    """Limit an estimator's threads: if it requests more, and for gradient boosting, which uses all cores."""
    import threadpoolctl

    threadpoolctl.threadpool_limits(threads)
    if not hasattr(estimator, "get_params"):
        return
    with contextlib.suppress(Exception):  # an author's own estimator may have parameters that it cannot set
        found = estimator.get_params(deep=True)
        owners = {"": estimator, **found}
        for name, value in found.items():
            owner, _, last = name.rpartition("__")
            boosts = type(owners.get(owner)).__module__.partition(".")[0] in {"lightgbm", "xgboost"}
            if last == "n_jobs" and (value is not None or boosts):
                estimator.set_params(**{name: threads})


def is_classifier(estimator: Any) -> bool:
    """Return whether an estimator predicts classes."""
    from sklearn.base import is_classifier

    return not isinstance(estimator, BoosterModel) and bool(is_classifier(estimator))


def wants_frame(estimator: Any, specs: list[Json]) -> bool:
    """Return whether rows are passed to an estimator as a DataFrame: if it has column names, or separate columns."""
    return is_split(specs) or get(estimator, "feature_names_in_") is not None


def is_split(specs: list[Json]) -> bool:
    """Return whether each column is a separate input, instead of one matrix."""
    return len(specs) > 1 or specs[0]["dtype"] == "str"


def make_rows(estimator: Any, specs: list[Json], feeds: Mapping[str, Array]) -> Any:
    """Return the estimator's input for arrays by name: a matrix, or a DataFrame if it has column names."""
    if not wants_frame(estimator, specs):
        return feeds[specs[0]["name"]]
    import pandas as pd

    if is_split(specs):
        known, numbered = find_categories(estimator), categories.has_categories(estimator)
        missing = find_missing_value(estimator)
        columns: dict[str, Any] = {spec["name"]: feeds[spec["name"]].ravel() for spec in specs}
        for spec in specs:
            name = spec["name"]
            if spec["dtype"] == "str":
                columns[name] = texts.restore_missing(columns[name], missing)
            if name in known or (numbered and spec["dtype"] == "str"):
                columns[name] = categories.make_column(columns[name], known.get(name, ["text"]))
        if known:
            categories.check_known(estimator, columns)
        return pd.DataFrame(columns)
    return pd.DataFrame(feeds[specs[0]["name"]], columns=list(estimator.feature_names_in_))


def find_categories(estimator: Any) -> categories.Categories:
    """Return the columns of pandas' type ``category``, with their categories; empty if these are unknown."""
    try:
        return categories.list_categories(estimator)
    except LookupError:
        return {}


def find_missing_value(estimator: Any) -> Any:
    """Return an estimator's value for missing text: None or pandas' own if a step declares it, else NaN."""
    try:
        found = estimator.get_params(deep=True)
    except Exception:  # noqa: BLE001 - a booster has none, and an author's own class may not have them
        return np.nan
    stated = [value for name, value in found.items() if name.rpartition("__")[2] == "missing_values"]
    odd = [value for value in stated if not isinstance(value, str) and texts.is_missing(value)]
    return odd[0] if odd else np.nan


def predict(estimator: Any, specs: list[Json], feeds: Mapping[str, Array]) -> dict[str, Array]:
    """Return the labels and probabilities of a classifier, or a regressor's predictions, as (rows, numbers)."""
    rows = make_rows(estimator, specs, feeds)
    predicted = np.asarray(estimator.predict(rows))
    if not is_classifier(estimator):
        return {"variable": predicted.reshape(len(predicted), -1).astype(np.float32)}
    text = predicted.dtype.kind in "OU"
    outputs = {"label": predicted.astype(str) if text else predicted.astype(np.int64)}
    if hasattr(estimator, "predict_proba"):
        outputs["probabilities"] = np.asarray(estimator.predict_proba(rows)).astype(np.float32)
    return outputs


class Session:
    """An estimator that is run unchanged."""

    def __init__(self, job: Json) -> None:
        require_cpu(job)
        self._estimator, _ = open_estimator(job)
        self._specs = job["input"]["inputs"]
        self._classifies = is_classifier(self._estimator)
        self._scores = hasattr(self._estimator, "predict_proba")

    def run(self, feeds: dict[str, Array]) -> dict[str, Array]:
        """Return the labels and probabilities of a classifier, or a regressor's predictions, as (rows, numbers)."""
        return predict(self._estimator, self._specs, feeds)

    def prepare(self, feeds: dict[str, Array]) -> Any:
        """Return the call that is timed: the author's own, on rows in the author's form."""
        rows = make_rows(self._estimator, self._specs, feeds)
        scores = self._classifies and self._scores
        return partial(self._estimator.predict_proba if scores else self._estimator.predict, rows)
