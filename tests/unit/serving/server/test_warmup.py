from __future__ import annotations

import numpy as np

from hone_runtime.contract.hardware import read_host
from hone_runtime.learner.golden import make_golden
from hone_runtime.values.artifact import Artifact, Shape, TensorSpec
from kedro_hone.serving.server.warmup import list_shapes, make_feeds, warm_up

X = TensorSpec(name="x", dtype="float32", shape=("batch", 2))
T = TensorSpec(name="t", dtype="str", shape=("batch", "length"))


def make(*inputs, **more) -> Artifact:
    return Artifact(format="onnx", digest="sha256:0", inputs=inputs, outputs=(X,), runtime="onnxruntime", **more)


def test_every_known_shape_is_called_once() -> None:
    artifact = make(
        X,
        static_shapes=(Shape(name="a", sizes={"batch": 1}),),
        metadata={"compiled_shapes": [{"batch": 8}, {"batch": 1}]},
    )
    shapes = list(list_shapes(artifact, [{"batch": 8, "other": 3}, {"batch": 64}, {"length": 3}]))
    assert shapes == [{"batch": 1}, {"batch": 8}, {"batch": 64}]


def test_a_model_of_fixed_sizes_is_called_once() -> None:
    assert list(list_shapes(make(X.model_copy(update={"shape": (1, 2)})), [])) == [{}]


def test_golden_rows_are_repeated_and_other_inputs_are_empty() -> None:
    golden = make_golden(
        {"x": np.array([[1, 2], [3, 4]], np.float32)},
        {"y": np.ones((2, 2), np.float32)},
        rows=2,
        largest_error=0,
        source=make(X),
        host=read_host(),
    )
    feeds = make_feeds(make(X, T), {"batch": 3, "length": 2}, golden)
    assert feeds["x"].tolist() == [[1, 2], [3, 4], [1, 2]]
    assert feeds["t"].tolist() == [["", ""]] * 3


def test_what_fails_is_returned() -> None:
    def run(feeds):
        if len(feeds["x"]) == 8:
            raise RuntimeError("no memory")

    (said,) = warm_up(run, make(X), golden=None, shapes=[{"batch": 1}, {"batch": 8}])
    assert "{'batch': 8}" in said
    assert "no memory" in said
