"""Trees behind steps over numbers, converted in the toolchain's own process, and compared on 2,000 fresh rows.

Run by path as a script with the python of scikit-learn's environment: the worker's file and a scratch folder. The fresh
rows whose label or probability is another one are in ``made.json`` of that folder, by configuration. Numbers have two
decimals, as measured ones do: a threshold, which lies in the middle between two values, is often a value itself.
"""

from __future__ import annotations

import json
import sys
import warnings
from collections.abc import Iterator
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any

import configurations
import numpy as np

FITTED, FRESH, COLUMNS = 600, 2000, 6
NEAR = 1e-5
_OF_BINS = ("KBinsDiscretizer", "Binarizer", "Binarizer by numpy's float")


def make_rows() -> tuple[Any, Any]:
    """Return rows of columns with two decimals and of whole numbers, of which some are missing, and three classes."""
    import pandas as pd

    draw = np.random.default_rng(0)
    count = FITTED + configurations.CALIBRATION + FRESH
    x = np.round(draw.lognormal(1.0, 0.7, (count, COLUMNS)), 2)
    x[:, -1] = draw.integers(0, 90, count)
    y = np.digitize(x[:, 0] - x[:, 1] + x[:, -1] / 30 + draw.normal(0, 0.3, count), [0.0, 2.0])
    x[draw.random(x.shape) < 0.03] = np.nan
    frame = pd.DataFrame(x, columns=[f"column {place}" for place in range(COLUMNS)])
    frame["column 4"] = draw.integers(0, 1000, count)
    return frame, y


def make_single() -> tuple[Any, Any]:
    """Return such rows in fp32."""
    frame, y = make_rows()
    frame = frame.astype(np.float32)
    frame.attrs["matrix"] = "float32"
    return frame, y


def make_matrix() -> tuple[Any, Any]:
    """Return such rows that are one input, as a signature has them that states a tensor."""
    frame, y = make_rows()
    frame.attrs["matrix"] = "float64"
    return frame, y


def make_edges() -> tuple[Any, Any]:
    """Return rows of one decimal from 0 to 6, which are often the edge of a bin."""
    frame, y = make_rows()
    return (frame.fillna(1.0) % 6).round(1), y


def make_two_classes() -> tuple[Any, Any]:
    """Return such rows of two classes."""
    frame, y = make_rows()
    return frame, (y > 0).astype(int)


def describe_inputs(x: Any) -> list[dict[str, Any]]:
    """Return an input for each column, as a signature has it; a matrix of those in fp32."""
    if matrix := x.attrs.get("matrix"):
        return [{"name": "X", "dtype": matrix, "shape": ["batch", COLUMNS]}]
    return [{"name": name, "dtype": x[name].dtype.name, "shape": ["batch", 1]} for name in x.columns]


def make_feeds(x: Any, specs: list[dict[str, Any]]) -> dict[str, Any]:
    """Return the arrays that a frame's rows are to a model."""
    if len(specs) == 1:
        return {specs[0]["name"]: x.to_numpy(specs[0]["dtype"])}
    return {spec["name"]: x[[spec["name"]]].to_numpy(spec["dtype"]) for spec in specs}


def list_steps() -> dict[str, Any]:
    """Return what makes the step before the trees, by name."""
    from sklearn.compose import make_column_transformer
    from sklearn.impute import SimpleImputer
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import (
        Binarizer,
        KBinsDiscretizer,
        MaxAbsScaler,
        MinMaxScaler,
        PolynomialFeatures,
        PowerTransformer,
        QuantileTransformer,
        RobustScaler,
        StandardScaler,
    )

    def impute(*steps: Any) -> Any:
        return make_pipeline(SimpleImputer(), *steps)

    def bins(encode: str) -> Any:
        return impute(KBinsDiscretizer(15, encode=encode, strategy="uniform"))

    names = [f"column {place}" for place in range(COLUMNS)]
    columns = partial(
        make_column_transformer,
        (impute(StandardScaler()), names[:2]),
        (SimpleImputer(strategy="median"), names[2:4]),
        remainder="passthrough",
    )
    return {
        "StandardScaler": StandardScaler,
        "MinMaxScaler": lambda: MinMaxScaler(clip=True),
        "MaxAbsScaler": MaxAbsScaler,
        "RobustScaler": RobustScaler,
        "PowerTransformer": lambda: PowerTransformer(standardize=True),
        "PowerTransformer of positive numbers": lambda: make_pipeline(
            MinMaxScaler((1, 2), clip=True), PowerTransformer("box-cox")
        ),
        "QuantileTransformer": lambda: QuantileTransformer(n_quantiles=100),
        "PolynomialFeatures": lambda: impute(PolynomialFeatures(3)),
        "products": lambda: impute(PolynomialFeatures(interaction_only=True, include_bias=False)),
        "SimpleImputer": impute,
        "KBinsDiscretizer": partial(bins, "ordinal"),
        "KBinsDiscretizer of columns": partial(bins, "onehot-dense"),
        "Binarizer": lambda: impute(Binarizer(threshold=9 * 0.3)),
        "Binarizer by numpy's float": lambda: impute(Binarizer(threshold=np.float64(2.7))),
        "ColumnTransformer": columns,
    }


def list_models() -> dict[str, Any]:
    """Return what makes the trees, by name."""
    import lightgbm
    import xgboost
    from sklearn import ensemble

    return {
        "RandomForest": lambda: ensemble.RandomForestClassifier(50, random_state=0),
        "HistGradientBoosting": lambda: ensemble.HistGradientBoostingClassifier(max_iter=25),
        "XGBoost": lambda: xgboost.XGBClassifier(n_estimators=25),
        "LightGBM": lambda: lightgbm.LGBMClassifier(n_estimators=25, verbose=-1),
    }


def list_configurations() -> Iterator[tuple[str, Any, Any]]:
    """Yield the name of each configuration, what makes its data, and what makes the estimator."""
    from sklearn.calibration import CalibratedClassifierCV
    from sklearn.ensemble import BaggingClassifier, StackingClassifier, VotingClassifier
    from sklearn.pipeline import make_pipeline

    steps, models = list_steps(), list_models()
    yield from ((name, make_rows, model) for name, model in models.items() if name != "XGBoost")

    def behind(step: str = "StandardScaler", model: str = "RandomForest") -> Any:
        return make_pipeline(steps[step](), models[model]())

    for step, model in product(steps, models):
        yield f"{step}, {model}", make_rows, partial(behind, step, model)
    for step in ("StandardScaler", "MinMaxScaler", "RobustScaler", "PolynomialFeatures", *_OF_BINS):
        yield f"{step}, RandomForest of fp32", make_single, partial(behind, step)
    for step in _OF_BINS:
        yield f"{step} of edges, RandomForest", make_edges, partial(behind, step)
    yield "StandardScaler, RandomForest of two classes", make_two_classes, behind
    for name, make in (("a matrix", make_matrix), ("fp32", make_single)):
        yield f"ColumnTransformer, RandomForest of {name}", make, partial(behind, "ColumnTransformer")
    bags = lambda: BaggingClassifier(behind("StandardScaler", "HistGradientBoosting"), 3, random_state=0)  # noqa: E731
    yield "BaggingClassifier", make_rows, bags
    pair = lambda: [("one", behind()), ("other", models["LightGBM"]())]  # noqa: E731
    yield "VotingClassifier", make_rows, lambda: VotingClassifier(pair(), voting="soft")
    yield "StackingClassifier", make_rows, lambda: StackingClassifier(pair(), cv=2)
    yield "CalibratedClassifierCV", make_rows, lambda: CalibratedClassifierCV(behind(), cv=2)


def convert(worker: Any, folder: Path, make: Any, fit: Any) -> Any:
    """Return how many fresh rows differ, or why a configuration is not converted."""
    counted: list[int] = []

    def count(model: Any, path: Path, x: Any, specs: Any) -> float:
        import onnxruntime

        session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
        label, probabilities = session.run(None, make_feeds(x, specs))
        due = model.predict_proba(x)
        far = np.abs(probabilities - due).max(axis=1) > NEAR
        counted.append(int(((label != model.predict(x)) | far).sum()))
        return 1.0

    configurations.check, configurations.make_feeds, configurations.describe_inputs = count, make_feeds, describe_inputs
    made = configurations.convert(worker, folder, make, fit)
    return counted[0] if counted else made


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    path, scratch, *chosen = sys.argv[1:]
    worker = configurations.load_worker(path)
    listed = [one for one in list_configurations() if not chosen or one[0] in chosen]
    found = {
        name: convert(worker, Path(scratch, str(place)), make, fit) for place, (name, make, fit) in enumerate(listed)
    }
    Path(scratch, "made.json").write_text(json.dumps(found))
