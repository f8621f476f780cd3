"""What is said of a source's outputs, by their shapes and by what is not finite."""

from __future__ import annotations

import numpy as np
import pytest

from hone_runtime.errors import HoneError
from hone_runtime.values.artifact import Artifact, TensorSpec
from kedro_hone.search.comparison.quantization import rounds_values
from kedro_hone.search.stability.faults import check_finite, check_rows, count_not_finite

INF, NAN = np.inf, np.nan
SOURCE = Artifact(
    format="onnx",
    digest="d",
    inputs=(),
    outputs=(TensorSpec(name="hidden", dtype="float32", shape=(2, "batch", 8)),),
)


@pytest.mark.parametrize(
    ("name", "shape", "why", "hint"),
    [
        ("loss", (), "For 16 rows in 1 call its shape is (): one number for all of them.", "Leave it out"),
        ("hidden", (2, 16, 8), "its shape is (2, 16, 8): the rows are on axis 1.", "hidden.movedim(1, 0)"),
        ("y", (4, 16), "its shape is (4, 16): the rows are on axis 1.", "y.movedim(1, 0)"),
        ("y", (137, 6), "its shape is (137, 6); a comparison needs one entry for each row.", "filled up"),
        ("y", (4, 16, 16), "its shape is (4, 16, 16); a comparison needs one entry for each row.", "filled up"),
    ],
)
def test_the_axis_of_the_rows_is_named_where_it_is_certain(name, shape, why, hint):
    with pytest.raises(HoneError) as caught:
        check_rows({name: np.zeros(shape)}, SOURCE, count=16, batch=16)

    assert caught.value.slug == "source-not-rowwise"
    assert caught.value.why.endswith(why)
    assert hint in caught.value.hint


def test_several_calls_are_told():
    with pytest.raises(HoneError, match="For 16 rows in 2 calls its shape is"):
        check_rows({"y": np.zeros((8, 8))}, SOURCE, count=16, batch=8)


def test_a_row_for_each_row_is_right_and_no_outputs_are_nobodys_fault():
    check_rows({"y": np.zeros((16, 3)), "z": np.zeros(16)}, SOURCE, count=16, batch=16)
    check_rows(None, SOURCE, count=16, batch=16)


def count(*rows, name="y", dtype=np.float32):
    table = np.array(rows, dtype=dtype)
    return count_not_finite(name, [table[:2], table[2:]])


def test_rows_are_counted_by_what_they_hold_over_all_parts():
    (said,) = check_finite([count([1, -INF], [NAN, NAN], [2, 3], [INF, -INF])])

    assert said.startswith(
        "the source's output 'y' is not finite in 3 of 4 rows (NaN in 1, -inf in 2, inf in 1); 2 have no finite number:"
    )


def test_what_is_finite_or_no_number_is_not_told():
    assert [*check_finite([count([1, 2], [3, 4], [5, 6]), count(["a"], ["b"], ["c"], dtype=str)])] == []


def test_nothing_finite_in_any_output_is_an_error():
    lost = [[NAN, INF]] * 3
    with pytest.raises(HoneError, match="All numbers of 'y', 'z' are NaN or infinite"):
        [*check_finite([count(*lost), count(*lost, name="z")])]


def test_one_output_that_is_all_right_makes_it_a_warning():
    lost = [[NAN, INF]] * 3
    (said,) = check_finite([count(*lost), count([1], [2], [3], name="labels", dtype=np.int64)])

    assert "'y' is not finite in 3 of 3 rows" in said


@pytest.mark.parametrize(
    ("operators", "quantized"),
    [
        (["Conv", "Relu", "GroupNormalization"], False),
        (["DynamicQuantizeLinear", "MatMulInteger"], True),
        (["aten.linear", "aten.round"], True),
        (["DynamicQuantizedLinear"], True),
        ([], False),
    ],
)
def test_a_model_that_quantizes_is_known_by_its_operators(operators, quantized):
    assert rounds_values(SOURCE.model_copy(update={"metadata": {"operators": operators}})) is quantized
