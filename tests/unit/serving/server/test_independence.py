from __future__ import annotations

import numpy as np
import pytest

from hone_runtime.contract.hardware import read_host
from hone_runtime.errors import HoneError
from hone_runtime.learner.golden import make_golden
from hone_runtime.values.artifact import Artifact, TensorSpec
from kedro_hone.serving.server.independence import check_batching, vary_rows

X, Y = (TensorSpec(name=name, dtype="float32", shape=("batch", 2)) for name in "xy")
ARTIFACT = Artifact(format="onnx", digest="sha256:0", inputs=(X,), outputs=(Y,), runtime="onnxruntime")


def double(feeds):
    return {"y": feeds["x"] * 2}


def quantize(feeds):
    """Round to 255 steps of the largest number in the call, as with activations that are quantized at run time."""
    scale = np.abs(feeds["x"]).max() / 127
    return {"y": np.round(feeds["x"] / scale) * scale * 2}


def fail_on_large(feeds):
    if (np.abs(feeds["x"]) > 1000).any():
        raise ValueError("too large")
    return double(feeds)


def centre(feeds):
    return {"y": feeds["x"] - feeds["x"].mean(axis=0)}


def make_rows(run, count: int = 4, *, error: float = 0):
    feeds = {"x": np.arange(2 * count, dtype=np.float32).reshape(count, 2)}
    return make_golden(feeds, run(feeds), rows=count, largest_error=error, source=ARTIFACT, host=read_host())


@pytest.mark.parametrize("count", [1, 4, 40])
def test_independent_rows_may_be_joined(count: int) -> None:
    check_batching("m", ARTIFACT, double, golden=make_rows(double, count), rows=16)


def test_few_rows_are_varied_without_new_values_of_whole_numbers() -> None:
    feeds = {"ids": np.array([[1, 2, 3]]), "age": np.array([[40.0]]), "word": np.array([["a"]])}
    found = vary_rows(feeds, 4)
    assert found["ids"].tolist() == [[1, 2, 3], [3, 1, 2], [2, 3, 1], [1, 2, 3]]
    assert found["age"].ravel().tolist() == [40, 50, 60, 70]
    assert found["word"].ravel().tolist() == ["a"] * 4


def test_rows_that_cannot_be_told_apart_are_refused() -> None:
    zeros = {"x": np.zeros((1, 2), np.float32)}
    golden = make_golden(zeros, double(zeros), rows=1, largest_error=0, source=ARTIFACT, host=read_host())
    with pytest.raises(HoneError, match="golden rows are equal"):
        check_batching("m", ARTIFACT, double, golden=golden, rows=16)


@pytest.mark.parametrize(
    ("artifact", "run", "count", "why"),
    [
        (ARTIFACT, centre, 4, "of 16 rows its output y differs"),
        (ARTIFACT, centre, 1, "of 16 rows its output y differs"),
        (ARTIFACT, double, 0, "no golden rows"),
        (ARTIFACT, fail_on_large, 4, "fails with ValueError"),
        (
            ARTIFACT.model_copy(update={"inputs": (X.model_copy(update={"shape": (4, 2)}),)}),
            double,
            4,
            "first axis of x",
        ),
        (
            ARTIFACT.model_copy(update={"outputs": (Y.model_copy(update={"shape": (2, "batch")}),)}),
            double,
            4,
            "first axis of y",
        ),
    ],
)
def test_what_cannot_be_joined_is_refused_with_the_reason(artifact, run, count: int, why: str) -> None:
    with pytest.raises(HoneError, match=why) as refused:
        check_batching("m", artifact, run, golden=make_rows(run, count), rows=16)
    assert refused.value.slug == "batching-unfit"


def test_a_row_of_large_numbers_may_not_take_the_precision_of_the_others() -> None:
    golden = make_rows(quantize, error=0.1)  # the tolerance of a quantized winner hides the rows of usual size
    with pytest.raises(
        HoneError, match="One client's rows change another's results: its output y changes by"
    ) as refused:
        check_batching("m", ARTIFACT, quantize, golden=golden, rows=16)
    assert refused.value.slug == "batching-unfit"
