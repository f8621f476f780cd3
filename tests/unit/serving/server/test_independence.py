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


def centre(feeds):
    return {"y": feeds["x"] - feeds["x"].mean(axis=0)}


def make_rows(run, count: int = 4, *, error: float = 0):
    feeds = {"x": np.arange(2 * count, dtype=np.float32).reshape(count, 2)}
    return make_golden(feeds, run(feeds), rows=count, largest_error=error, source=ARTIFACT, host=read_host())


def make_positive_rows(run):
    feeds = {"x": np.arange(1, 9, dtype=np.float32).reshape(4, 2)}
    return make_golden(feeds, run(feeds), rows=4, largest_error=0, source=ARTIFACT, host=read_host())


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


def quantize_positive(feeds):
    scale = np.maximum(-feeds["x"].min(), 1) / 127
    return {"y": np.round(feeds["x"] / scale) * scale * 2}


def add_rows_before(feeds):
    before = np.concatenate([np.zeros((1, 2)), np.cumsum(feeds["x"], axis=0)[:-1]])
    return {"y": (feeds["x"] * 2 + (np.abs(before) > 1000)).astype(np.float32)}


def skip_if_a_row_is_zero(feeds):
    return {"y": feeds["x"] * (2 if feeds["x"].any(axis=1).all() else 1)}


def multiply_by_a_mask(feeds):
    """Compute with a block for each row, in which NaN times zero remains NaN."""
    mask = np.eye(len(feeds["x"]), dtype=np.float32)
    return {"y": (mask @ feeds["x"] * 2).astype(np.float32)}


@pytest.mark.filterwarnings("ignore:invalid value encountered")
@pytest.mark.parametrize(
    ("run", "why"), [(skip_if_a_row_is_zero, "changes by 0.5 of"), (multiply_by_a_mask, "is no longer finite")]
)
def test_a_row_of_zeros_or_nan_may_not_change_the_others(run, why) -> None:
    with pytest.raises(HoneError, match=f"One client's rows change another's results: its output .*{why}"):
        check_batching("m", ARTIFACT, run, golden=make_positive_rows(run), rows=16)


@pytest.mark.parametrize("run", [quantize, quantize_positive, add_rows_before])
@pytest.mark.parametrize("last", [None, 0.0])
def test_other_rows_count_wherever_they_are_and_whatever_the_last_golden_row_is(run, last) -> None:
    feeds = {"x": np.arange(8, dtype=np.float32).reshape(4, 2)}
    if last is not None:
        feeds["x"][-1] = last
    golden = make_golden(feeds, run(feeds), rows=4, largest_error=0.12, source=ARTIFACT, host=read_host())
    with pytest.raises(HoneError) as refused:
        check_batching("m", ARTIFACT, run, golden=golden, rows=16)
    assert refused.value.slug == "batching-unfit"


@pytest.mark.parametrize(
    "metadata",
    [
        {"operators": ["DynamicQuantizeLinear", "MatMulInteger"]},
        {"parts": [{"candidate": "a", "digest": "d", "runtime": "onnxruntime", "format": "onnx",
                    "metadata": {"operators": ["CumSum"]}}]},
    ],
)  # fmt: skip
def test_operators_that_compute_with_all_rows_are_refused_by_name(metadata) -> None:
    form = {"format": "composite", "runtime": "composite"} if "parts" in metadata else {}
    artifact = ARTIFACT.model_copy(update={"metadata": metadata, **form})
    with pytest.raises(HoneError, match="computes with all rows of a call"):
        check_batching("m", artifact, double, golden=make_rows(double), rows=16)


def test_outputs_without_a_finite_number_prove_nothing() -> None:
    def run(feeds):
        return {"y": np.full_like(feeds["x"], np.nan)}

    with pytest.raises(HoneError, match="no finite number"):
        check_batching("m", ARTIFACT, run, golden=make_rows(run), rows=16)


def check(run, feeds) -> None:
    golden = make_golden(feeds, run(feeds), rows=4, largest_error=0.5, source=ARTIFACT, host=read_host())
    check_batching("m", ARTIFACT, run, golden=golden, rows=16)


def round_if_any_is_masked(feeds):
    fine = feeds["mask"].all()
    return {"y": (feeds["x"] if fine else np.round(feeds["x"])).astype(np.float32)}


def hide_by_a_large_column(feeds):
    x = feeds["x"]
    scale = np.abs(x[:, 1]).max() / 127
    return {"y": np.stack([(x[:, 0] + 1) * 1e5, np.round(x[:, 1] / scale) * scale], axis=1).astype(np.float32)}


def subtract_and_quantize(feeds):
    difference = feeds["x"] - feeds["b"]
    scale = max(np.abs(difference).max(), 1e-6) / 127
    return {"y": (np.round(difference / scale) * scale).astype(np.float32)}


WEIGHTS = np.random.default_rng(1).random((300, 2)).astype(np.float32)
WEIGHTS[0] = 2
WEIGHTS[150:] *= 50


def embed_and_quantize(feeds):
    """Look up ids of which some that no golden row has are outliers; larger ones than 299 raise an error."""
    found = WEIGHTS[feeds["ids"]]
    scale = np.abs(found).max() / 127
    return {"y": (np.round(found / scale) * scale).sum(axis=1).astype(np.float32)}


@pytest.mark.parametrize(
    "run", [round_if_any_is_masked, hide_by_a_large_column, subtract_and_quantize, embed_and_quantize]
)
def test_an_influence_is_found_in_any_input_and_output(run) -> None:
    drawn = np.random.default_rng(0).random((3, 4, 2)).astype(np.float32)
    feeds = {"x": drawn[0], "b": drawn[1], "mask": np.ones((4, 2), bool), "ids": np.arange(40).reshape(4, 10)}
    with pytest.raises(HoneError) as refused:
        check(run, feeds)
    assert refused.value.slug == "batching-unfit"


def test_rows_of_several_inputs_may_be_joined() -> None:
    drawn = np.random.default_rng(0).random((2, 4, 2)).astype(np.float32)
    check(lambda feeds: {"y": feeds["x"] - feeds["b"]}, {"x": drawn[0], "b": drawn[1]})
