"""The source and its candidates are timed on the same rows, which two workers make: neither may import the other."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest

from hone_runtime.interfaces.tables import make_rows
from hone_runtime.values.artifact import Artifact, TensorSpec
from hone_runtime.worker.imports import load_file
from kedro_hone.adaptors.sklearn.adaptor import TOOLCHAIN


@pytest.mark.parametrize("split", [True, False])
def test_both_make_the_same_rows(split):
    worker = load_file("hone_worker_of_rows", str(TOOLCHAIN.worker))
    if split:
        specs = [
            TensorSpec(name=name, dtype=kind, shape=("batch", 1)) for name, kind in (("a", "str"), ("b", "float32"))
        ]
        feeds = {"a": np.array([["x"], ["yy"]]), "b": np.ones((2, 1), np.float32)}
    else:
        specs, feeds = [TensorSpec(name="X", dtype="float64", shape=("batch", 2))], {"X": np.arange(4.0).reshape(2, 2)}
    about = {"kind": "regressor", "split": split, "feature_names_in": ["a", "b"]}
    outputs = (TensorSpec(name="variable", dtype="float32", shape=("batch", 1)),)
    artifact = Artifact(format="onnx", digest="", inputs=tuple(specs), outputs=outputs, metadata={"sklearn": about})
    estimator = SimpleNamespace(feature_names_in_=np.array(["a", "b"], object))
    theirs = worker.estimators.make_rows(estimator, [spec.model_dump() for spec in specs], feeds)
    pd.testing.assert_frame_equal(make_rows(artifact, feeds), theirs)
