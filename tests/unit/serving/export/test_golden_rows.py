from __future__ import annotations

import json

import numpy as np
import pytest
from served_winners import ROWS, X, Y

from hone_runtime.learner.golden import Golden, Packed
from kedro_hone.serving.export.golden_rows import choose_rows, list_golden_files, pack_raw
from kedro_hone.serving.tensors import Tensor, describe_tensors


def make(x: np.ndarray, y: np.ndarray) -> Golden:
    sides = {"inputs": {"x": Packed.of(x)}, "outputs": {"y": Packed.of(y)}}
    return Golden(**sides, tolerance=0.01, source={}, machine="m", processor="p")


def choose(golden: Golden, *, rows: int | None = None):
    inputs, outputs = (describe_tensors([spec]) for spec in (X, Y))
    if rows is not None:
        inputs = (inputs[0].model_copy(update={"shape": (rows, 4)}),)
    return choose_rows(golden, inputs, outputs, stored=golden.outputs)


def test_rows_that_json_cannot_express_are_left_out() -> None:
    x, y = ROWS.copy(), np.ones((5, 3), np.float32)
    x[1, 2], y[3, 0] = np.nan, np.inf
    chosen = choose(make(x, y))
    np.testing.assert_array_equal(chosen.inputs["x"], x[[0, 2, 4]])
    assert choose(make(np.full_like(x, np.nan), y)) is None


def test_a_fixed_number_of_rows_is_filled_with_the_same_rows() -> None:
    y = np.arange(15, dtype=np.float32).reshape(5, 3)
    chosen = choose(make(ROWS, y), rows=7)
    np.testing.assert_array_equal(chosen.inputs["x"], ROWS[[0, 1, 2, 3, 4, 0, 1]])
    np.testing.assert_array_equal(chosen.outputs["y"], y[[0, 1, 2, 3, 4, 0, 1]])
    assert len(choose(make(ROWS, y), rows=2).inputs["x"]) == 2


@pytest.mark.parametrize("x", [ROWS[:, :3], ROWS.astype(np.float64)], ids=["shape", "type"])
def test_rows_of_another_shape_or_type_are_not_used(x: np.ndarray) -> None:
    assert choose(make(np.ascontiguousarray(x), np.ones((5, 3), np.float32))) is None


def test_the_request_has_each_number_exactly() -> None:
    chosen = choose(make(ROWS, np.ones((5, 3), np.float32)))
    tensors = describe_tensors([X]), describe_tensors([Y])
    files = {str(name): json.loads(content) for name, content in list_golden_files(chosen, *tensors, name="m").items()}
    (tensor,) = files["request.json"]["inputs"]
    assert (tensor["name"], tensor["datatype"], tensor["shape"]) == ("x", "FP32", [5, 4])
    np.testing.assert_array_equal(np.array(tensor["data"], np.float32).reshape(5, 4), ROWS)
    assert files["response.json"]["parameters"] == {"tolerance": 0.01}
    assert files["response.json"]["model_name"] == "m"


def test_texts_are_sent_as_they_are() -> None:
    texts = np.array([["ä", "beta"]])
    tensor = Tensor(name="t", datatype="BYTES", shape=(-1, 2))
    golden = Golden(
        inputs={"t": Packed.of(texts)},
        outputs={"t": Packed.of(texts)},
        tolerance=0.01,
        source={},
        machine="",
        processor="",
    )
    chosen = choose_rows(golden, [tensor], [tensor], stored=golden.outputs)
    files = list_golden_files(chosen, [tensor], [tensor], name="m")
    assert json.loads(next(iter(files.values())))["inputs"][0]["data"] == ["ä", "beta"]
    assert pack_raw(texts) == b"\x02\x00\x00\x00\xc3\xa4\x04\x00\x00\x00beta"


def test_raw_bytes_are_little_endian() -> None:
    assert pack_raw(np.array([[1, 2]], ">i4")) == b"\x01\0\0\0\x02\0\0\0"
    assert pack_raw(np.array([True, False])) == b"\x01\0"
    assert pack_raw(ROWS.T) == np.ascontiguousarray(ROWS.T).tobytes()
