"""scikit-learn, XGBoost and LightGBM: run estimators unchanged, and convert them to ONNX."""

from __future__ import annotations

from typing import Any

from . import descriptions, estimators

load = estimators.Session


def transform(job: dict[str, Any]) -> dict[str, Any]:
    """Write ``model.onnx`` into the job's output, and return notes."""
    from . import conversion  # slow to import

    return conversion.transform(job)


def describe(job: dict[str, Any]) -> dict[str, Any]:
    """Return the tensors of an estimator, or of its ONNX model, and the facts about the estimator."""
    if job["input"]["format"] == "onnx":
        from . import conversion

        return conversion.describe(job)
    if job["input"]["format"] != "sklearn":
        raise KeyError(job["input"]["format"])
    return descriptions.describe(job)
