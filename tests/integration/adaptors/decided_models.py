"""Classifiers that decide by scores, converted in the toolchain's own process, and compared on fresh rows.

Run by path as a script with the python of scikit-learn's environment: the worker's file, a scratch folder, and names of
configurations. ``made.json`` of that folder has, by configuration, why it is refused, or for each size of the rows how
many labels are other ones though the source's two largest scores differ, and how many probabilities are.
"""

from __future__ import annotations

import json
import sys
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import configurations
import numpy as np

SIZES = (1.0, 20.0, 1e4)
NEAR, TIED = 1e-5, 1e-9
ROWS = 4500

Fit = Callable[[], Any]


def make_rows(classes: int, *, text: bool = False) -> tuple[Any, Any]:
    """Return rows of groups that lie apart, of which a model is sure."""
    import pandas as pd
    from sklearn.datasets import make_classification

    x, y = make_classification(
        ROWS, 8, n_informative=6, n_classes=classes, class_sep=2.0, n_clusters_per_class=1, random_state=2
    )
    frame = pd.DataFrame(x, columns=[f"column {place}" for place in range(8)])
    return frame, np.array([f"class {one}" for one in y], object) if text else y


def list_models() -> dict[str, tuple[int, Fit]]:
    """Return by name how many classes a configuration has, and what makes the estimator."""
    from sklearn import discriminant_analysis, ensemble, linear_model, svm, tree
    from sklearn.calibration import CalibratedClassifierCV
    from sklearn.model_selection import GridSearchCV
    from sklearn.multiclass import OneVsRestClassifier
    from sklearn.neural_network import MLPClassifier
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    def logistic(c: float = 1.0) -> Any:
        return linear_model.LogisticRegression(C=c, max_iter=2000)

    def stochastic(loss: str) -> Any:
        return linear_model.SGDClassifier(loss=loss, random_state=0)

    def scaled(last: Any) -> Any:
        return make_pipeline(StandardScaler(), last)

    def network() -> Any:
        return MLPClassifier((16,), max_iter=300, random_state=0)

    def trees() -> Any:
        return tree.DecisionTreeClassifier(max_depth=4, random_state=0)

    def bag(one: Any) -> Any:
        return ensemble.BaggingClassifier(one, 5, max_features=0.5, bootstrap_features=True, random_state=0)

    pair = [("logistic", logistic()), ("network", network())]
    fits: dict[str, Fit] = {
        "OneVsRest of LogisticRegression": lambda: OneVsRestClassifier(logistic()),
        "OneVsRest of steep LogisticRegression": lambda: OneVsRestClassifier(logistic(1e4)),
        "OneVsRest of LinearSVC": lambda: OneVsRestClassifier(svm.LinearSVC()),
        "OneVsRest of SGD": lambda: OneVsRestClassifier(stochastic("log_loss")),
        "OneVsRest of a pipeline": lambda: OneVsRestClassifier(scaled(logistic())),
        "OneVsRest of trees": lambda: OneVsRestClassifier(trees()),
        "OneVsRest of Ridge": lambda: OneVsRestClassifier(linear_model.Ridge()),
        "OneVsRest behind a scaler": lambda: scaled(OneVsRestClassifier(logistic())),
        "GridSearch over OneVsRest": lambda: GridSearchCV(OneVsRestClassifier(logistic()), {}, cv=2),
        "LogisticRegression": lambda: logistic(1e4),
        "LogisticRegressionCV": lambda: linear_model.LogisticRegressionCV(Cs=2, cv=2, max_iter=500),
        "LogisticRegression behind a scaler": lambda: scaled(logistic(1e4)),
        "LinearSVC": svm.LinearSVC,
        "SGD by log_loss": lambda: stochastic("log_loss"),
        "SGD by modified_huber": lambda: stochastic("modified_huber"),
        "SGD by hinge": lambda: stochastic("hinge"),
        "Perceptron": lambda: linear_model.Perceptron(random_state=0),
        "RidgeClassifier": linear_model.RidgeClassifier,
        "LinearDiscriminantAnalysis": discriminant_analysis.LinearDiscriminantAnalysis,
        "Calibrated LinearSVC": lambda: CalibratedClassifierCV(svm.LinearSVC()),
        "Calibrated LogisticRegression": lambda: CalibratedClassifierCV(logistic()),
        "Calibrated SGD": lambda: CalibratedClassifierCV(stochastic("hinge")),
        "Calibrated OneVsRest": lambda: CalibratedClassifierCV(OneVsRestClassifier(logistic())),
        "Calibrated MLPClassifier": lambda: CalibratedClassifierCV(network(), cv=2),
        "Isotonic LogisticRegression": lambda: CalibratedClassifierCV(logistic(), method="isotonic"),
        "VotingClassifier": lambda: ensemble.VotingClassifier(pair, voting="soft", weights=[3, 1]),
        "VotingClassifier without weights": lambda: ensemble.VotingClassifier(pair, voting="soft"),
        "StackingClassifier": lambda: ensemble.StackingClassifier(pair, logistic(), cv=2),
        "BaggingClassifier": lambda: ensemble.BaggingClassifier(logistic(), 6, random_state=0),
        "BaggingClassifier of some columns": lambda: bag(logistic()),
        "BaggingClassifier of some columns of LinearSVC": lambda: bag(svm.LinearSVC()),
        "BaggingClassifier of some columns of OneVsRest": lambda: bag(OneVsRestClassifier(logistic())),
        "BaggingClassifier of few rows": lambda: ensemble.BaggingClassifier(
            discriminant_analysis.LinearDiscriminantAnalysis(), 6, max_samples=9, random_state=0
        ),
        "Calibrated BaggingClassifier": lambda: CalibratedClassifierCV(bag(logistic()), cv=2),
        "MLPClassifier": network,
    }
    both = {f"{name}, {count} classes": (count, fit) for name, fit in fits.items() for count in (2, 4)}
    return both | {f"{name} of text, 3 classes": (3, fits[name]) for name in ("LinearSVC", "OneVsRest of SGD")}


def decide(model: Any, x: Any) -> Any:
    """Return a source's own scores, a column for each class."""
    if not hasattr(model, "decision_function") and not hasattr(model, "predict_proba"):
        predicted = [one.predict(x) for one in model.estimators_]
        return np.stack(predicted if len(predicted) > 1 else [np.full(len(x), 0.5), *predicted], axis=1)
    if not hasattr(model, "decision_function") or type(model).__name__ == "BaggingClassifier":
        return model.predict_proba(x)
    scores = model.decision_function(x)
    return np.stack([np.zeros(len(scores)), scores], axis=1) if scores.ndim == 1 else scores


def count_differences(model: Any, folder: Path, x: Any) -> list[list[int]]:
    """Return for each size the labels, and the rows of probabilities, that are other ones in the graph."""
    import onnxruntime

    session = onnxruntime.InferenceSession(folder / "output" / "model.onnx", providers=["CPUExecutionProvider"])
    (given,) = session.get_inputs()
    names, found = [one.name for one in session.get_outputs()], []
    for size in SIZES:
        rows = x * size
        made = dict(zip(names, session.run(None, {given.name: rows.to_numpy(float)}), strict=True))
        second, first = np.sort(decide(model, rows), axis=1)[:, -2:].T
        decided = first - second > TIED * np.maximum(np.abs(first), np.abs(second))
        labels = int(((made["label"] != model.predict(rows)) & decided).sum())
        shares = 0
        if "probabilities" in made:
            shares = int((np.abs(made["probabilities"] - model.predict_proba(rows)).max(axis=1) > NEAR).sum())
        found.append([labels, shares])
    return found


def main() -> None:
    """Convert the configurations that are named, or all."""
    path, folder, *names = sys.argv[1:]
    worker, known = configurations.load_worker(path), list_models()
    made: dict[str, Any] = {}
    for place, name in enumerate(names or [*known]):
        classes, fit = known[name]
        x, y = make_rows(classes, text="of text" in name)
        into = Path(folder, str(place))
        found = configurations.convert(worker, into, lambda x=x, y=y: (x, y), fit)
        if "converted" not in found:
            made[name] = found["refused"]
            continue
        fresh = x[configurations.FITTED + configurations.CALIBRATION :]
        model = configurations.pickle.loads((into / "source" / "model.pkl").read_bytes())
        made[name] = count_differences(model, into, fresh)
    Path(folder, "made.json").write_text(json.dumps(made))


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    main()
