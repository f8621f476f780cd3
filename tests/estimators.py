"""Estimators of scikit-learn, XGBoost and LightGBM, trained and logged as MLflow's flavors write them.

Run by path as a script: boosters are imported from the toolchain's own environment, whose packages come last on the
path, so that MLflow and scikit-learn are those of the tests.
"""

from __future__ import annotations

import sys
import warnings
from pathlib import Path
from typing import Any

import numpy as np

AUTHOR = """
from sklearn.base import BaseEstimator, TransformerMixin


class Halve(TransformerMixin, BaseEstimator):
    def fit(self, x, y=None):
        return self

    def transform(self, x):
        return x / 2
"""


def make(kind: str, x: Any, y: Any) -> Any:  # noqa: C901, PLR0911, PLR0912 - one line for each kind
    """Return an estimator of a kind, fitted."""
    from sklearn.compose import make_column_transformer
    from sklearn.ensemble import GradientBoostingRegressor, HistGradientBoostingClassifier, RandomForestClassifier
    from sklearn.impute import SimpleImputer
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import OneHotEncoder, SplineTransformer, StandardScaler

    if kind == "forest":
        return make_pipeline(StandardScaler(), RandomForestClassifier(60, random_state=0)).fit(x, y)
    if kind == "logistic":
        return make_pipeline(StandardScaler(), LogisticRegression()).fit(x, y)
    if kind == "mixed":
        columns = make_column_transformer(
            (OneHotEncoder(handle_unknown="ignore"), ["color"]), remainder=StandardScaler()
        )
        return make_pipeline(columns, LogisticRegression()).fit(x, y)
    if kind == "splines":
        return make_pipeline(StandardScaler(), SplineTransformer(), LogisticRegression()).fit(x, y)
    if kind == "indicators":
        holes = np.where(x < x.mean(axis=0), np.nan, x)
        return make_pipeline(SimpleImputer(add_indicator=True), LogisticRegression()).fit(holes, y)
    if kind == "author":
        from authors_step import Halve

        return make_pipeline(Halve(), LogisticRegression()).fit(x, y)
    if kind == "histograms":
        return HistGradientBoostingClassifier(max_iter=10).fit(x, y)
    if kind == "boosted":
        return GradientBoostingRegressor(n_estimators=20, random_state=0).fit(x, y)
    if kind == "lightgbm":
        import lightgbm

        return lightgbm.LGBMClassifier(n_estimators=40, verbose=-1).fit(x, y)
    if kind == "booster":
        import lightgbm

        return lightgbm.train({"objective": "regression", "verbose": -1}, lightgbm.Dataset(x, y), 10)
    import xgboost

    if kind == "xgboost-regressor":
        return xgboost.XGBRegressor(n_estimators=20).fit(x, y)
    if kind == "empty":
        return xgboost.XGBClassifier(n_estimators=3, min_child_weight=1e6).fit(x, y)
    if kind == "stopped":
        model = xgboost.XGBClassifier(n_estimators=200, max_depth=2, early_stopping_rounds=3, learning_rate=0.5)
        return model.fit(x[::2], y[::2], eval_set=[(x[1::2], y[1::2])], verbose=False)
    return xgboost.XGBClassifier(n_estimators=20, max_depth=3).fit(x, y)


def read_data(name: str) -> tuple[Any, Any]:
    """Return one of scikit-learn's data sets, in float64; its labels are text where the name ends so."""
    from sklearn import datasets

    if name == "mixed":
        import pandas as pd

        draw = np.random.default_rng(0)
        colors, size, count = (
            draw.choice(["red", "green", "blue"], 150),
            draw.normal(size=150),
            draw.integers(0, 9, 150),
        )
        x = pd.DataFrame({"color": colors.astype(object), "1st size (€)": size, "how-many": count})
        return x, (size + (colors == "red") + count / 9 > 0.7).astype(np.int64)
    x, y = getattr(datasets, f"load_{name.removesuffix('-text')}")(return_X_y=True)
    return x, np.array(["malignant", "benign", "unclear"])[y] if name.endswith("-text") else y


MODELS = {
    "forest": ("forest", "breast_cancer", {"serialization_format": "cloudpickle"}),
    "forest-skops": ("forest", "breast_cancer", {"skops_trusted_types": ["sklearn.tree._tree.Tree"]}),
    "logistic": ("logistic", "iris-text", {}),
    "frame": ("logistic", "wine", {}),
    "mixed": ("mixed", "mixed", {}),
    "histograms": ("histograms", "breast_cancer", {"serialization_format": "cloudpickle"}),
    "boosted": ("boosted", "diabetes", {"serialization_format": "pickle"}),
    "lightgbm": ("lightgbm", "iris-text", {}),
    "booster": ("booster", "diabetes", {}),
    "xgboost": ("xgboost", "breast_cancer", {"model_format": "ubj"}),
    "xgboost-json": ("xgboost", "wine", {"model_format": "json"}),
    "xgboost-regressor": ("xgboost-regressor", "diabetes", {}),
    "empty": ("empty", "breast_cancer", {}),
    "stopped": ("stopped", "breast_cancer", {}),
    "splines": ("splines", "iris", {"serialization_format": "cloudpickle"}),
    "indicators": ("indicators", "iris", {"serialization_format": "cloudpickle"}),
    "author": ("author", "iris", {"serialization_format": "cloudpickle"}),
}
"""By the name of a folder: the kind, the data, and what MLflow is told."""


def save(kind: str, data: str, folder: Path, **how: Any) -> None:
    """Train an estimator and let MLflow save it with a signature; its rows and predictions come next to it."""
    import mlflow
    from mlflow.models import infer_signature

    x, y = read_data(data)
    if folder.name == "frame":
        import pandas as pd

        x = pd.DataFrame(x, columns=[f"column {index}" for index in range(x.shape[1])])
    if kind == "author":
        (folder.parent / "authors_step.py").write_text(AUTHOR)
        sys.path.append(str(folder.parent))
        how |= {"code_paths": [str(folder.parent / "authors_step.py")]}
    model = make(kind, x, y)
    flavor = getattr(mlflow, "sklearn" if kind == "author" else type(model).__module__.partition(".")[0])
    flavor.save_model(model, folder, signature=infer_signature(x, model.predict(x)), pip_requirements=[], **how)
    columns = {name: x[name].to_numpy() for name in x} if hasattr(x, "columns") else {"X": x}
    if data == "mixed":
        columns["color"] = columns["color"].astype(str)
    np.savez(folder.with_name(f"{folder.name}-rows.npz"), **columns)
    told = {"label" if hasattr(model, "classes_") else "variable": model.predict(x)}
    if hasattr(model, "predict_proba"):
        told["probabilities"] = model.predict_proba(x)
    np.savez(folder.with_name(f"{folder.name}-told.npz"), **told)


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    environment, root, *names = sys.argv[1:]
    sys.path.append(environment)
    for name in names or MODELS:
        kind, data, how = MODELS[name]
        save(kind, data, Path(root, name), **how)
