"""Estimators with parameters that converters overlook, converted in the toolchain's own process.

Run by path as a script with the python of scikit-learn's environment: the worker's file, a scratch folder, and names of
estimators. What the worker returns is in ``made.json`` of that folder, by name.
"""

from __future__ import annotations

import json
import pickle
import sys
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

DRAW = np.random.default_rng(0)
ROWS = 600


def make_data() -> tuple[Any, Any]:
    """Return rows of twelve named columns, the first of which is a category, and three classes."""
    import pandas as pd
    from sklearn.datasets import make_classification

    x, y = make_classification(ROWS, 12, n_informative=8, n_classes=3, random_state=0)
    frame = pd.DataFrame(x, columns=[f"c{index}" for index in range(12)])
    frame["c0"] = np.random.default_rng(0).permutation(6)[np.digitize(frame["c0"], [-2, -1, 0, 1, 2])].astype(float)
    return frame, y


def _lightgbm(**how: Any) -> Callable[[Any, Any], Any]:
    def fit(x: Any, y: Any) -> Any:
        import lightgbm

        kind = lightgbm.LGBMRegressor if how.get("linear_tree") or how.get("reg_sqrt") else lightgbm.LGBMClassifier
        return kind(n_estimators=20, verbose=-1, **how).fit(x, y)

    return fit


def _xgboost(*, kind: str = "XGBClassifier", binary: bool = False, **how: Any) -> Callable[[Any, Any], Any]:
    def fit(x: Any, y: Any) -> Any:
        import xgboost

        return getattr(xgboost, kind)(n_estimators=20, **how).fit(x.to_numpy(), y > 0 if binary else y)

    return fit


def _fit_histograms(x: Any, y: Any) -> Any:
    from sklearn.ensemble import HistGradientBoostingClassifier

    return HistGradientBoostingClassifier(max_iter=20, categorical_features=[0]).fit(x, y)


def _fit_isotonic(x: Any, y: Any) -> Any:
    from sklearn.calibration import CalibratedClassifierCV
    from sklearn.linear_model import LogisticRegression

    return CalibratedClassifierCV(LogisticRegression(), method="isotonic").fit(x, y)


def _fit_calibrated(x: Any, y: Any) -> Any:
    from sklearn.calibration import CalibratedClassifierCV
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    return CalibratedClassifierCV(make_pipeline(StandardScaler(), LogisticRegression())).fit(x, y)


def _fit_hinge(x: Any, y: Any) -> Any:
    from sklearn.linear_model import SGDClassifier

    return SGDClassifier(loss="modified_huber", random_state=0).fit(x, y)


def _fit_neighbors(x: Any, y: Any) -> Any:
    from sklearn.neighbors import KNeighborsClassifier

    return KNeighborsClassifier(5, weights="distance").fit(x, y)


def _fit_forest(x: Any, y: Any) -> Any:
    from sklearn.ensemble import RandomForestClassifier

    return RandomForestClassifier(30, random_state=0).fit(x, y)


def _fit_forest_of_holes(x: Any, y: Any) -> Any:
    from sklearn.ensemble import RandomForestClassifier

    holes = x.mask(np.random.default_rng(1).random(x.shape) < 0.1)
    return RandomForestClassifier(30, random_state=0).fit(holes, y)


def _fit_xgboost_of_names(x: Any, y: Any) -> Any:
    """Return a pipeline whose XGBoost knows its columns by names that end in other numbers than their places."""
    import xgboost

    names = [f"f{place}" for place in reversed(range(x.shape[1]))]
    model = xgboost.XGBClassifier(n_estimators=20)
    return model.fit(x.set_axis(names, axis=1), y)


def _fit_boosted_votes(x: Any, y: Any) -> Any:
    import xgboost
    from sklearn.ensemble import RandomForestClassifier, VotingClassifier

    named = [
        ("forest", RandomForestClassifier(20, random_state=0)),
        ("none", "drop"),
        ("boosted", xgboost.XGBClassifier(n_estimators=20)),
    ]
    return VotingClassifier(named, voting="soft", weights=[3, 9, 1]).fit(x, y)


def _fit_mean_of_regressors(x: Any, y: Any) -> Any:
    import xgboost
    from sklearn.ensemble import RandomForestRegressor, VotingRegressor

    named = [("forest", RandomForestRegressor(20, random_state=0)), ("boosted", xgboost.XGBRegressor(n_estimators=20))]
    return VotingRegressor(named, weights=[1, 3]).fit(x, y)


def _fit_strange_votes(x: Any, y: Any) -> Any:
    from sklearn.ensemble import VotingClassifier
    from sklearn.linear_model import LogisticRegression
    from sklearn.naive_bayes import GaussianNB
    from sklearn.neighbors import NearestCentroid

    named = [("bayes", GaussianNB()), ("nearest", NearestCentroid()), ("line", LogisticRegression())]
    return VotingClassifier(named).fit(x, y)


def _fit_power(x: Any, y: Any) -> Any:
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import PowerTransformer

    return make_pipeline(PowerTransformer(), LogisticRegression()).fit(x, y)


ESTIMATORS: dict[str, Callable[[Any, Any], Any]] = {
    "lightgbm one-vs-all": _lightgbm(objective="multiclassova"),
    "lightgbm rf": _lightgbm(boosting_type="rf", bagging_freq=1, bagging_fraction=0.7),
    "lightgbm linear": _lightgbm(linear_tree=True),
    "lightgbm zeros": _lightgbm(zero_as_missing=True),
    "lightgbm square root": _lightgbm(reg_sqrt=True),
    "xgboost softmax": _xgboost(objective="multi:softmax"),
    "xgboost parallel": _xgboost(num_parallel_tree=4, subsample=0.7),
    "xgboost margins": _xgboost(kind="XGBRegressor", objective="reg:logistic", binary=True),
    "histograms of categories": _fit_histograms,
    "isotonic": _fit_isotonic,
    "calibrated": _fit_calibrated,
    "modified huber": _fit_hinge,
    "neighbors by distance": _fit_neighbors,
    "forest": _fit_forest,
    "forest of holes": _fit_forest_of_holes,
    "power": _fit_power,
    "xgboost of names": _fit_xgboost_of_names,
    "boosted votes": _fit_boosted_votes,
    "mean of regressors": _fit_mean_of_regressors,
    "strange votes": _fit_strange_votes,
    "lightgbm dart": _lightgbm(boosting_type="dart"),
    "xgboost poisson": _xgboost(kind="XGBRegressor", objective="count:poisson"),
}


def convert(worker: Any, folder: Path, estimator: Any, rows: Any) -> dict[str, Any]:
    """Return what the worker makes of an estimator, whose rows are its calibration data."""
    for name in ("source", "output", "temporary"):
        (folder / name).mkdir(parents=True)
    (folder / "source" / "model.pkl").write_bytes(pickle.dumps(estimator))
    reference = {"class": "", "file": "model.pkl", "serialization": "pickle", "version": ""}
    (folder / "source" / "estimator.json").write_text(json.dumps(reference))

    inputs = [{"name": "X", "dtype": "float64", "shape": ["batch", rows.shape[1]]}]
    given = {"path": str(folder / "source"), "format": "sklearn", "inputs": inputs, "outputs": []}
    job = {"input": given, "output": str(folder / "output"), "temporary": str(folder / "temporary")}
    job |= {"calibration": str(folder / "calibration.npz"), "options": {"opset": 20}, "adaptor": "sklearn.onnx"}
    job |= {"threads": 1, "seed": 0, "trust": ["pickle"]}
    told = worker.describe(job)
    given |= {side: told[side] for side in ("inputs", "outputs")}
    columns = {"X": rows.to_numpy(float), **{name: rows[name].to_numpy(float) for name in rows}}
    np.savez(folder / "calibration.npz", **{spec["name"]: columns[spec["name"]] for spec in told["inputs"]})
    made: dict[str, Any] = worker.transform(job)
    return made


def main() -> None:
    """Convert the estimators that are named, or all."""
    path, folder, *names = sys.argv[1:]
    sys.path.append(str(Path(path).parents[4] / "src"))
    from hone_runtime.worker.packages import import_worker

    x, y = make_data()
    worker = import_worker(path)
    found = {
        name: convert(worker, Path(folder, name), ESTIMATORS[name](x[:400], y[:400]), x[400:])
        for name in names or ESTIMATORS
    }
    Path(folder, "made.json").write_text(json.dumps(found))


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    main()
