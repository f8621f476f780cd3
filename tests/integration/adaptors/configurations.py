"""Configurations of estimators that people have, converted in the toolchain's own process, and checked on fresh rows.

Run by path as a script with the python of scikit-learn's environment: the worker's file, a scratch folder, and names of
configurations. What became of each is in ``made.json`` of that folder: ``converted`` with the share of fresh rows that
agree, or why it is ``refused``.
"""

from __future__ import annotations

import json
import pickle
import sys
import warnings
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

ROWS, FITTED, CALIBRATION = 1500, 600, 300
MISSING = "\ue000missing"


def make_numbers(classes: int = 3) -> tuple[Any, Any]:
    """Return rows of eight named columns of numbers, and classes."""
    import pandas as pd
    from sklearn.datasets import make_classification

    x, y = make_classification(ROWS, 8, n_informative=6, n_classes=classes, random_state=0)
    return pd.DataFrame(x, columns=[f"column {place}" for place in range(8)]), y


def make_mixed() -> tuple[Any, Any]:
    """Return rows of numbers, whole numbers and texts, of which some are missing, and two classes."""
    import pandas as pd

    draw = np.random.default_rng(0)
    frame = pd.DataFrame(
        {
            "age": draw.normal(40, 12, ROWS),
            "children": draw.integers(0, 5, ROWS),
            "deck": draw.choice(
                ["A", "B", "C", "NA", "rare one", "rare two"], ROWS, p=[0.4, 0.3, 0.2, 0.06, 0.02, 0.02]
            ),
            "port": draw.choice(["Cherbourg", "Queenstown"], ROWS),
        }
    )
    frame["deck"], frame["port"] = frame["deck"].astype(object), frame["port"].astype(object)
    y = ((frame.age + 9 * (frame.port == "Cherbourg") + 4 * (frame.deck == "NA") + frame.children) > 46).astype(int)
    frame.loc[draw.random(ROWS) < 0.1, "age"] = np.nan
    frame.loc[draw.random(ROWS) < 0.1, "port"] = np.nan
    return frame, y


def make_two_targets() -> tuple[Any, Any]:
    """Return rows of numbers, whole numbers and texts without gaps, and two numbers of each."""
    frame, y = make_mixed()
    frame = frame.fillna({"age": 40.0, "port": "Cherbourg"})
    return frame, np.stack([frame.age + y, frame.children - 2.0 * y], axis=1)


def make_categories() -> tuple[Any, Any]:
    """Return rows of a number and of pandas' categories, of texts and of numbers, and two classes."""
    import pandas as pd

    frame, y = make_mixed()
    frame["deck"] = pd.Categorical(frame["deck"])
    frame["port"] = pd.Categorical(frame["port"])
    frame["children"] = pd.Categorical(frame["children"])
    return frame, y


Fit = Callable[[], Any]


def _of_sklearn() -> dict[str, tuple[Callable[[], tuple[Any, Any]], Fit]]:
    from sklearn import ensemble, linear_model, neighbors, svm
    from sklearn.calibration import CalibratedClassifierCV
    from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
    from sklearn.feature_extraction.text import TfidfVectorizer
    from sklearn.frozen import FrozenEstimator
    from sklearn.impute import KNNImputer, SimpleImputer
    from sklearn.model_selection import GridSearchCV, RandomizedSearchCV, TunedThresholdClassifierCV
    from sklearn.multiclass import OneVsOneClassifier, OneVsRestClassifier
    from sklearn.neural_network import MLPClassifier
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import KBinsDiscretizer, SplineTransformer, StandardScaler
    from sklearn.tree import DecisionTreeClassifier, DecisionTreeRegressor

    def scaled_tree() -> Any:
        return make_pipeline(StandardScaler(), DecisionTreeRegressor(max_depth=5, random_state=0))

    def bag(one: Any, share: float = 0.5) -> Any:
        return ensemble.BaggingClassifier(one, 5, max_features=share, random_state=0)

    logistic = linear_model.LogisticRegression
    forest = lambda: ensemble.RandomForestClassifier(20, random_state=0)  # noqa: E731
    votes = [("forest", forest()), ("line", logistic())]
    histograms = ensemble.HistGradientBoostingClassifier
    of_texts = lambda: make_pipeline("passthrough", TfidfVectorizer(), logistic())  # noqa: E731
    return {
        "LogisticRegression": (make_numbers, logistic),
        "StandardScaler, RandomForestClassifier": (make_numbers, lambda: make_pipeline(StandardScaler(), forest())),
        "GradientBoostingClassifier": (make_numbers, lambda: ensemble.GradientBoostingClassifier(n_estimators=20)),
        "HistGradientBoostingClassifier": (make_numbers, lambda: histograms(max_iter=20)),
        "HistGradientBoostingClassifier(categorical_features='from_dtype')": (
            make_categories,
            lambda: histograms(max_iter=20),
        ),
        "SVC": (make_numbers, lambda: svm.SVC(random_state=0)),
        "MLPClassifier": (make_numbers, lambda: MLPClassifier(8, max_iter=40, random_state=0)),
        "KNeighborsClassifier": (make_numbers, neighbors.KNeighborsClassifier),
        "KNeighborsClassifier(weights='distance')": (
            make_numbers,
            lambda: neighbors.KNeighborsClassifier(weights="distance"),
        ),
        "VotingClassifier(voting='soft', weights=[3, 1])": (
            make_numbers,
            lambda: ensemble.VotingClassifier(votes, voting="soft", weights=[3, 1]),
        ),
        "StackingClassifier": (make_numbers, lambda: ensemble.StackingClassifier(votes, logistic())),
        "StackingClassifier of LinearSVC": (
            lambda: make_numbers(2),
            lambda: ensemble.StackingClassifier([("svm", svm.LinearSVC()), *votes], logistic()),
        ),
        "BaggingClassifier": (make_numbers, lambda: ensemble.BaggingClassifier(logistic(), 5, random_state=0)),
        **{
            f"BaggingClassifier(max_features=0.5) over {name}": (make_numbers, partial(bag, one))
            for name, one in {
                "LogisticRegression": logistic(),
                "SGDClassifier": linear_model.SGDClassifier(random_state=0),
                "LinearDiscriminantAnalysis": LinearDiscriminantAnalysis(),
                "OneVsRestClassifier": OneVsRestClassifier(logistic()),
                "DecisionTreeClassifier": DecisionTreeClassifier(max_depth=5, random_state=0),
            }.items()
        },
        "BaggingClassifier over LinearSVC": (make_numbers, lambda: bag(svm.LinearSVC(), 1.0)),
        "BaggingRegressor(max_features=0.5) over Ridge": (
            make_numbers,
            lambda: ensemble.BaggingRegressor(linear_model.Ridge(), 5, max_features=0.5, random_state=0),
        ),
        "BaggingRegressor over StandardScaler, DecisionTreeRegressor": (
            make_numbers,
            lambda: ensemble.BaggingRegressor(scaled_tree(), 5, random_state=0),
        ),
        "StackingRegressor over VotingRegressor of StandardScaler, DecisionTreeRegressor": (
            make_numbers,
            lambda: ensemble.StackingRegressor(
                [("vote", ensemble.VotingRegressor([("tree", scaled_tree()), ("line", linear_model.Ridge())]))], cv=2
            ),
        ),
        "AdaBoostRegressor over StandardScaler, DecisionTreeRegressor": (
            make_numbers,
            lambda: ensemble.AdaBoostRegressor(scaled_tree(), n_estimators=5, random_state=0),
        ),
        "OneVsOneClassifier": (make_numbers, lambda: OneVsOneClassifier(logistic())),
        "SVC(decision_function_shape='ovo')": (make_numbers, lambda: svm.SVC(decision_function_shape="ovo")),
        "KBinsDiscretizer(strategy='uniform'), RandomForestClassifier": (
            make_numbers,
            lambda: make_pipeline(KBinsDiscretizer(12, encode="ordinal", strategy="uniform"), forest()),
        ),
        "RandomizedSearchCV over RandomForestClassifier": (
            make_numbers,
            lambda: RandomizedSearchCV(forest(), {"max_depth": [3, 6]}, n_iter=2, cv=2, random_state=0),
        ),
        "CalibratedClassifierCV over LinearSVC": (make_numbers, lambda: CalibratedClassifierCV(svm.LinearSVC())),
        "CalibratedClassifierCV over a pipeline": (
            make_numbers,
            lambda: CalibratedClassifierCV(make_pipeline(StandardScaler(), logistic())),
        ),
        "CalibratedClassifierCV over FrozenEstimator": (
            make_numbers,
            lambda: CalibratedClassifierCV(FrozenEstimator(logistic().fit(*(one[:300] for one in make_numbers())))),
        ),
        "CalibratedClassifierCV(method='isotonic')": (
            make_numbers,
            lambda: CalibratedClassifierCV(logistic(), method="isotonic"),
        ),
        "CalibratedClassifierCV(method='temperature')": (
            make_numbers,
            lambda: CalibratedClassifierCV(logistic(), method="temperature"),
        ),
        "KBinsDiscretizer(encode='onehot'), LogisticRegression": (
            make_numbers,
            lambda: make_pipeline(KBinsDiscretizer(4, quantile_method="averaged_inverted_cdf"), logistic()),
        ),
        "SplineTransformer, LogisticRegression": (
            make_numbers,
            lambda: make_pipeline(StandardScaler(), SplineTransformer(), logistic()),
        ),
        "SimpleImputer(missing_values=-999), LogisticRegression": (
            make_numbers,
            lambda: make_pipeline(SimpleImputer(missing_values=-999), logistic()),
        ),
        "SimpleImputer(add_indicator=True), LogisticRegression": (
            lambda: _with_holes(make_numbers()),
            lambda: make_pipeline(SimpleImputer(add_indicator=True), logistic()),
        ),
        "KNNImputer, LogisticRegression": (
            lambda: _with_holes(make_numbers()),
            lambda: make_pipeline(KNNImputer(), logistic()),
        ),
        **{
            name: (_make_texts, fit)
            for name, fit in {
                "TfidfVectorizer, LogisticRegression": of_texts,
                "GridSearchCV over TfidfVectorizer": lambda: GridSearchCV(of_texts(), {}, cv=2),
                "CalibratedClassifierCV over TfidfVectorizer": lambda: CalibratedClassifierCV(of_texts(), cv=2),
                "TunedThresholdClassifierCV over TfidfVectorizer": lambda: TunedThresholdClassifierCV(of_texts()),
            }.items()
        },
    }


def _with_holes(data: tuple[Any, Any]) -> tuple[Any, Any]:
    x, y = data
    return x.mask(np.random.default_rng(1).random(x.shape) < 0.1), y


def _make_texts() -> tuple[Any, Any]:
    import pandas as pd

    words = np.random.default_rng(0).choice(["good", "bad", "film"], (ROWS, 4))
    texts = pd.Series([" ".join(row) for row in words], dtype=object)
    return texts, np.array([int("good" in text) for text in texts])


def _of_columns() -> dict[str, tuple[Callable[[], tuple[Any, Any]], Fit]]:
    from sklearn.calibration import CalibratedClassifierCV
    from sklearn.compose import make_column_transformer
    from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier
    from sklearn.impute import SimpleImputer
    from sklearn.linear_model import LogisticRegression, Ridge
    from sklearn.model_selection import GridSearchCV
    from sklearn.multioutput import MultiOutputRegressor
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import OneHotEncoder, OrdinalEncoder, StandardScaler

    def make(encode: Callable[[], Any], last: Any = None) -> Any:
        text = make_pipeline(SimpleImputer(strategy="most_frequent"), encode())
        numbers = make_pipeline(SimpleImputer(), StandardScaler())
        columns = make_column_transformer((numbers, ["children", "age"]), (text, ["deck", "port"]))
        return make_pipeline(columns, last or LogisticRegression())

    def encode_missing(encoder: Any) -> Any:
        columns = make_column_transformer((SimpleImputer(), ["age"]), (encoder, ["deck", "port"]))
        return make_pipeline(columns, RandomForestClassifier(20, random_state=0))

    def predict_two(last: Any = None) -> Any:
        columns = make_column_transformer(
            (StandardScaler(), ["age", "children"]), (OneHotEncoder(handle_unknown="ignore"), ["deck", "port"])
        )
        return make_pipeline(columns, last or Ridge())

    ordinal = OrdinalEncoder(handle_unknown="use_encoded_value", unknown_value=-1, encoded_missing_value=-2)
    return {
        "SimpleImputer and OneHotEncoder of text": (
            make_mixed,
            lambda: make(lambda: OneHotEncoder(handle_unknown="ignore")),
        ),
        "OneHotEncoder(min_frequency)": (
            make_mixed,
            lambda: make(lambda: OneHotEncoder(min_frequency=0.05, handle_unknown="infrequent_if_exist")),
        ),
        "CalibratedClassifierCV over a pipeline of mixed columns": (
            make_mixed,
            lambda: CalibratedClassifierCV(make(lambda: OneHotEncoder(handle_unknown="ignore"))),
        ),
        "SimpleImputer, OneHotEncoder of text alone": (
            lambda: (make_mixed()[0][["deck", "port"]], make_mixed()[1]),
            lambda: make_pipeline(
                SimpleImputer(strategy="most_frequent"), OneHotEncoder(handle_unknown="ignore"), LogisticRegression()
            ),
        ),
        "HistGradientBoostingClassifier(categorical_features=['deck', 'port'])": (
            make_mixed,
            lambda: HistGradientBoostingClassifier(max_iter=20, categorical_features=["deck", "port"]),
        ),
        "Ridge of two targets": (make_two_targets, predict_two),
        "GridSearchCV over Ridge of two targets": (
            make_two_targets,
            lambda: GridSearchCV(predict_two(), {"ridge__alpha": [0.1, 1.0]}, cv=2),
        ),
        "MultiOutputRegressor over Ridge": (make_two_targets, lambda: predict_two(MultiOutputRegressor(Ridge()))),
        "OneHotEncoder of missing text": (make_mixed, lambda: encode_missing(OneHotEncoder(handle_unknown="ignore"))),
        "OrdinalEncoder of missing text": (make_mixed, lambda: encode_missing(ordinal)),
    }


def _of_boosters() -> dict[str, tuple[Callable[[], tuple[Any, Any]], Fit]]:
    import lightgbm
    import xgboost
    from sklearn.calibration import CalibratedClassifierCV
    from sklearn.ensemble import RandomForestClassifier, StackingClassifier, VotingClassifier

    def binary() -> tuple[Any, Any]:
        return make_numbers(2)

    def holes_of_999() -> tuple[Any, Any]:
        x, y = _with_holes(make_numbers())
        return x.fillna(-999.0), y

    def boosted(**how: Any) -> Any:
        return xgboost.XGBClassifier(n_estimators=20, **how)

    def light(**how: Any) -> Any:
        return lightgbm.LGBMClassifier(n_estimators=20, verbose=-1, **how)

    pair = [("forest", RandomForestClassifier(20, random_state=0)), ("boosted", boosted())]
    forest = lambda: xgboost.XGBRFClassifier(n_estimators=20)  # noqa: E731
    return {
        "XGBClassifier": (make_numbers, boosted),
        "XGBClassifier(objective='multi:softmax')": (make_numbers, lambda: boosted(objective="multi:softmax")),
        "XGBClassifier(num_parallel_tree=3)": (make_numbers, lambda: boosted(num_parallel_tree=3, subsample=0.7)),
        "XGBClassifier(num_parallel_tree=3) of two classes": (
            binary,
            lambda: boosted(num_parallel_tree=3, subsample=0.7),
        ),
        "XGBClassifier(missing=-999)": (holes_of_999, lambda: boosted(missing=-999.0)),
        "XGBClassifier(booster='dart')": (make_numbers, lambda: boosted(booster="dart", rate_drop=0.3)),
        "XGBClassifier(booster='gblinear')": (make_numbers, lambda: boosted(booster="gblinear")),
        "XGBClassifier(enable_categorical=True)": (make_categories, lambda: boosted(enable_categorical=True)),
        "XGBRFClassifier": (make_numbers, forest),
        "XGBRFClassifier of two classes": (binary, forest),
        "XGBRegressor": (make_numbers, lambda: xgboost.XGBRegressor(n_estimators=20)),
        "XGBRegressor(objective='reg:logistic')": (
            binary,
            lambda: xgboost.XGBRegressor(n_estimators=20, objective="reg:logistic"),
        ),
        "VotingClassifier of XGBClassifier": (make_numbers, lambda: VotingClassifier(pair, voting="soft")),
        "StackingClassifier of XGBClassifier": (make_numbers, lambda: StackingClassifier(pair)),
        "CalibratedClassifierCV over LGBMClassifier": (make_numbers, lambda: CalibratedClassifierCV(light())),
        "CalibratedClassifierCV over XGBClassifier(enable_categorical=True)": (
            make_categories,
            lambda: CalibratedClassifierCV(boosted(enable_categorical=True)),
        ),
        "CalibratedClassifierCV over XGBClassifier": (make_numbers, lambda: CalibratedClassifierCV(boosted())),
        "LGBMClassifier": (make_numbers, light),
        "LGBMClassifier(boosting_type='dart')": (make_numbers, lambda: light(boosting_type="dart")),
        "LGBMClassifier of category columns": (make_categories, light),
        "LGBMClassifier(objective='multiclassova')": (make_numbers, lambda: light(objective="multiclassova")),
        "LGBMRegressor(linear_tree=True)": (
            make_numbers,
            lambda: lightgbm.LGBMRegressor(n_estimators=20, verbose=-1, linear_tree=True),
        ),
    }


def list_configurations() -> dict[str, tuple[Callable[[], tuple[Any, Any]], Fit]]:
    """Return by the name of a configuration what makes its data, and what makes the estimator."""
    return {**_of_sklearn(), **_of_columns(), **_of_boosters()}


def describe_inputs(x: Any) -> list[dict[str, Any]]:
    """Return the inputs that the columns of a frame become by a signature, where it has text; else none."""
    if not hasattr(x, "columns"):
        return []
    kinds = {"f": "float64", "i": "int64", "b": "int64"}
    named = [(name, kinds.get(x[name].dtype.kind, "str")) for name in x.columns]
    if any(kind == "str" for _, kind in named) and not any(x[name].dtype == "category" for name in x.columns):
        return [{"name": name, "dtype": kind, "shape": ["batch", 1]} for name, kind in named]
    return []


def make_feeds(x: Any, specs: list[dict[str, Any]]) -> dict[str, Any]:
    """Return the arrays that a frame's rows are to a model."""
    import pandas as pd

    if len(specs) == 1 and specs[0]["dtype"] != "str":
        return {specs[0]["name"]: x.to_numpy(float)}
    feeds = {}
    for spec in specs:
        column = x[spec["name"]]
        if spec["dtype"] == "str":
            feeds[spec["name"]] = np.array([MISSING if pd.isna(one) else one for one in column], str)[:, None]
        else:
            feeds[spec["name"]] = np.asarray(column.astype(float)).astype(spec["dtype"])[:, None]
    return feeds


def convert(worker: Any, folder: Path, make: Callable[[], tuple[Any, Any]], fit: Fit) -> dict[str, Any]:
    """Return what became of one configuration."""
    for name in ("source", "output", "temporary"):
        (folder / name).mkdir(parents=True)
    x, y = make()
    model = fit().fit(x[:FITTED], y[:FITTED])
    (folder / "source" / "model.pkl").write_bytes(pickle.dumps(model))
    reference = {"class": "", "file": "model.pkl", "serialization": "pickle", "version": ""}
    (folder / "source" / "estimator.json").write_text(json.dumps(reference))
    given = {"path": str(folder / "source"), "format": "sklearn", "inputs": describe_inputs(x), "outputs": []}
    job = {"input": given, "output": str(folder / "output"), "temporary": str(folder / "temporary")}
    job |= {"calibration": str(folder / "calibration.npz"), "options": {"opset": 20}, "adaptor": "sklearn.onnx"}
    job |= {"threads": 1, "seed": 0, "trust": ["pickle"]}
    told = worker.describe(job)
    if "refused" in told:
        return {"refused": told["refused"]}
    given |= {side: told[side] for side in ("inputs", "outputs")}
    if told["sklearn"]["kind"] == "regressor":
        found = np.reshape(model.predict(x[:2]), (2, -1))
        assert told["outputs"][0]["shape"][1] == found.shape[1], told["outputs"]
    np.savez(folder / "calibration.npz", **make_feeds(x[FITTED : FITTED + CALIBRATION], given["inputs"]))
    made = worker.transform(job)
    if "metadata" not in made:
        return {"refused": made.get("refused") or str(made.get("failed"))}
    return {"converted": check(model, folder / "output" / "model.onnx", x[FITTED + CALIBRATION :], given["inputs"])}


def check(model: Any, path: Path, x: Any, specs: list[dict[str, Any]]) -> float:
    """Return the share of fresh rows for which the graph gives what the author's own call does."""
    import onnxruntime

    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    feeds = {
        name: array.astype(object) if array.dtype.kind == "U" else array for name, array in make_feeds(x, specs).items()
    }
    made = dict(zip([one.name for one in session.get_outputs()], session.run(None, feeds), strict=True))
    if "variable" in made:
        due, found = np.asarray(model.predict(x)).reshape(len(x), -1), made["variable"]
        scale = np.abs(due).max()
        return float(np.mean(np.abs(found - due).max(axis=1) <= 1e-4 * scale))
    agree = made["label"] == model.predict(x)
    if hasattr(model, "predict_proba"):
        agree = agree & (np.abs(made["probabilities"] - model.predict_proba(x)).max(axis=1) <= 1e-4)
    return float(np.mean(agree))


def load_worker(path: str) -> Any:
    """Return the worker of a file."""
    sys.path.append(str(Path(path).parents[4] / "src"))
    from hone_runtime.worker.packages import import_worker

    return import_worker(path)


def main() -> None:
    """Convert the configurations that are named, or all."""
    path, folder, *names = sys.argv[1:]
    worker, known = load_worker(path), list_configurations()
    found = {
        name: convert(worker, Path(folder, str(place)), *known[name]) for place, name in enumerate(names or [*known])
    }
    Path(folder, "made.json").write_text(json.dumps(found))


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    main()
