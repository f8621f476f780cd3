"""The module that MLflow loads for versions published before ``hone_runtime``."""

from __future__ import annotations

from hone_runtime.learner.pyfunc import PyfuncEstimator, PyfuncModel, _load_pyfunc

__all__ = ["PyfuncEstimator", "PyfuncModel", "_load_pyfunc"]
