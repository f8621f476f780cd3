"""A winner whose source was an estimator, with the methods and attributes of an estimator."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from hone_runtime.interfaces.tables import has_probabilities, make_predict_proba, read_classes
from hone_runtime.learner.model import Learner
from hone_runtime.values.artifact import Artifact

Array = np.ndarray[Any, Any]


class Estimator(Learner):
    """A winner that is called like its source estimator: ``predict`` accepts rows as in scikit-learn.

    Arrays, lists and DataFrames are cast to the type of the model's input. Its attributes are the source's:
    ``n_features_in_`` and, if known, ``feature_names_in_`` and ``classes_``.
    """

    def __init__(self, artifact: Artifact, files: Path, *, threads: int | None = None) -> None:
        """Open a sealed artifact as ``Learner`` does."""
        super().__init__(artifact, files, interface="sklearn", threads=threads)
        notes = artifact.metadata["sklearn"]
        if isinstance(count := notes.get("n_features_in"), int):
            self.n_features_in_ = count
        if "feature_names_in" in notes:
            self.feature_names_in_ = np.array(notes["feature_names_in"], object)
        self.predict = self._call


class Classifier(Estimator):
    """A winner that predicts classes."""

    def __init__(self, artifact: Artifact, files: Path, *, threads: int | None = None) -> None:
        """Open a sealed artifact as ``Learner`` does."""
        super().__init__(artifact, files, threads=threads)
        self.classes_ = read_classes(artifact)


class ProbabilisticClassifier(Classifier):
    """A winner that also predicts the probability of each class."""

    def __init__(self, artifact: Artifact, files: Path, *, threads: int | None = None) -> None:
        """Open a sealed artifact as ``Learner`` does."""
        super().__init__(artifact, files, threads=threads)
        self._score = make_predict_proba(self.run, artifact)

    def predict_proba(self, X: Any) -> Array:  # noqa: N803 - scikit-learn's name, which callers may use
        """Return the probability of each class, in the order of ``classes_``, for each row."""
        return self._score(X)


def make_estimator(artifact: Artifact, files: Path, *, threads: int | None) -> Estimator:
    """Return a winner with the methods of its source.

    Raises:
        HoneError, ImportError, ValueError: As in ``Learner``.
    """
    if artifact.metadata["sklearn"].get("kind") != "classifier":
        return Estimator(artifact, files, threads=threads)
    return (ProbabilisticClassifier if has_probabilities(artifact) else Classifier)(artifact, files, threads=threads)
