"""ONNX files whose dimensions have no names, one name for two sizes, or outputs that are declared wrongly."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from hone_runtime.interfaces.tensors import match_shapes
from hone_runtime.values.artifact import TensorSpec
from kedro_hone.adaptors.onnxruntime import adaptor as module
from kedro_hone.adaptors.openvino import adaptor as openvino

pytestmark = pytest.mark.toolchain

SHAPES = [{"name": "two", "sizes": {"batch": 2}}]


@pytest.fixture
def bench(make_bench):
    return make_bench(module)


def value(name, dims, dtype=TensorProto.FLOAT):
    made = helper.make_tensor_value_info(name, dtype, dims)
    for dim, size in zip(made.type.tensor_type.shape.dim, dims, strict=True):
        if isinstance(size, int):
            dim.dim_value = size  # make_tensor_value_info leaves out what is negative
    return made


def write(folder, nodes, inputs, outputs, weights=()):
    folder.mkdir()
    draw = np.random.default_rng(0)
    arrays = [
        (name, given if isinstance(given, np.ndarray) else draw.normal(size=given) / 4) for name, given in weights
    ]
    kept = [
        numpy_helper.from_array(array.astype("f4") if array.dtype == float else array, name) for name, array in arrays
    ]
    graph = helper.make_graph(nodes, "g", inputs, outputs, kept)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 12)], ir_version=7)
    onnx.save(model, folder / "model.onnx")
    return folder


def write_image(folder, dims, output=None):
    nodes = [
        helper.make_node("Conv", ["x", "k", "b"], ["c"], pads=[1, 1, 1, 1]),
        helper.make_node("Relu", ["c"], ["r"]),
        helper.make_node("GlobalAveragePool", ["r"], ["g"]),
        helper.make_node("Flatten", ["g"], ["f"]),
        helper.make_node("MatMul", ["f", "m"], ["y"]),
    ]
    weights = [("k", (16, 3, 3, 3)), ("b", (16,)), ("m", (16, 5))]
    return write(folder, nodes, [value("x", dims)], [value("y", output or [dims[0], 5])], weights)


def write_columns(folder, output, step=1):
    """As networks for texts in pictures: columns first, then the batch."""
    nodes = [
        helper.make_node("Conv", ["x", "k"], ["c"], pads=[1, 1, 1, 1], strides=[1, step]),
        helper.make_node("ReduceMean", ["c"], ["p"], axes=[2], keepdims=0),
        helper.make_node("Transpose", ["p"], ["t"], perm=[2, 0, 1]),
        helper.make_node("MatMul", ["t", "m"], ["y"]),
    ]
    inputs, outputs = [value("x", [1, 3, 8, "w"])], [value("y", output)]
    return write(folder, nodes, inputs, outputs, [("k", (16, 3, 3, 3)), ("m", (16, 5))])


def describe(bench, folder, shapes=SHAPES):
    return bench.call("describe", folder, "onnx", adaptor="source", shapes=shapes)[0]


def list_shapes(described, side="inputs"):
    return [spec["shape"] for spec in described[side]]


@pytest.mark.parametrize(
    ("dims", "due"),
    [
        ([-1, 3, "?", "?"], ["batch", 3, "dim_2", "dim_3"]),
        ([None, 3, None, None], ["batch", 3, "dim_2", "dim_3"]),
        (["", 3, 8, 12], ["batch", 3, 8, 12]),
        (["unk__123", 3, "unk__4", "-1"], ["batch", 3, "dim_2", "dim_3"]),
        (["-1", 3, 8, ""], ["batch", 3, 8, "dim_3"]),
        (["N", 3, "side", "side"], ["batch", 3, "side", "x_3"]),
        ([1, 3, 8, 12], [1, 3, 8, 12]),
    ],
    ids=str,
)
def test_unknown_dimensions_are_neither_fixed_nor_equal(bench, tmp_path, dims, due):
    folder = write_image(tmp_path / "source", dims)
    described = describe(bench, folder)
    assert list_shapes(described) == [due]
    assert list_shapes(described, "outputs") == [[due[0], 5]]
    assert "warnings" not in described
    rows = np.random.default_rng(1).normal(size=(40, 3, 8, 12)).astype("f4")
    match_shapes([TensorSpec(**described["inputs"][0])], [(due[0] if due[0] == 1 else 4, 3, 8, 12)])
    feeds = [{"x": rows[:batch]} for batch in ((1,) if due[0] == 1 else (1, 5))]
    want = bench.run(folder, "onnx", feeds, described=described)
    np.savez(tmp_path / "rows.npz", x=rows)
    job = {"described": described, "calibration": str(tmp_path / "rows.npz")}
    sizes = {dim: (1, 3, 8, 12)[axis] for axis, dim in enumerate(due) if isinstance(dim, str)}
    for name in ("onnxruntime.int8-static", "onnxruntime.session"):
        notes, output = bench.transform(name, folder, shapes=[{"name": "one", "sizes": {"batch": 1, **sizes}}], **job)
        assert not {"failed", "refused"} & notes.keys()
        assert list_shapes(bench.describe(output, "onnx")) == [due]
        found = bench.run(output, "onnx", feeds, described=described, metadata=notes.get("metadata", {}))
        for have, should in zip(found, want, strict=True):
            np.testing.assert_allclose(have["y"], should["y"], atol=0.2)


def test_dimensions_of_two_inputs_without_names_need_not_be_equal(bench, tmp_path):
    nodes = [
        helper.make_node("ReduceSum", ["a"], ["s"], axes=[1], keepdims=1),
        helper.make_node("ReduceMean", ["b"], ["m"], axes=[1, 2], keepdims=0),
        helper.make_node("Unsqueeze", ["m"], ["n"], axes=[1]),
        helper.make_node("Add", ["s", "n"], ["y"]),
    ]
    inputs = [value("a", [None, None]), value("b", [None, None, None])]
    folder = write(tmp_path / "source", nodes, inputs, [value("y", [None, 1])])
    assert list_shapes(describe(bench, folder)) == [["batch", "a_1"], ["batch", "b_1", "dim_2"]]
    asked = [{"name": "one", "sizes": {"batch": 1, "dim_1": 4}}]
    assert list_shapes(describe(bench, folder, asked)) == [["batch", "dim_1"], ["batch", "dim_1", "dim_2"]]


def test_a_name_for_two_sizes_stays_where_the_graph_needs_it_or_the_recipe_has_it(bench, tmp_path):
    inputs = [value("a", ["N", "n"]), value("b", ["N", "n"]), value("c", ["N", "k", "k"])]
    nodes = [helper.make_node("Add", ["a", "b"], ["y"]), helper.make_node("Relu", ["c"], ["z"])]
    outputs = [value("y", ["N", "n"]), value("z", ["N", "k", "k"])]
    folder = write(tmp_path / "source", nodes, inputs, outputs)
    described = describe(bench, folder)
    assert list_shapes(described) == [["batch", "n"], ["batch", "n"], ["batch", "k", "c_2"]]
    assert list_shapes(described, "outputs") == [["batch", "n"], ["batch", "k", "c_2"]]
    asked = describe(bench, folder, [{"name": "one", "sizes": {"batch": 1, "k": 4}}])
    assert list_shapes(asked)[2] == list_shapes(asked, "outputs")[1] == ["batch", "k", "k"]


@pytest.mark.parametrize(
    "case",
    [
        ([1, "seqlen"], 1, ["w", 1, 5], True),
        ([1, "seqlen"], 4, ["y_0", 1, 5], True),
        (["seqlen", 1, 5], 4, ["seqlen", 1, 5], False),
        (["w", 1, 5], 2, ["y_0", 1, 5], False),
        (["seqlen", 1, 7], 2, ["seqlen", 1, 5], True),
    ],
    ids=str,
)
def test_an_output_is_what_a_run_gives(bench, make_bench, tmp_path, case):
    output, step, due, told = case
    folder = write_columns(tmp_path / "source", output, step)
    described = describe(bench, folder, [{"name": "one", "sizes": {"batch": 1}}])
    assert list_shapes(described, "outputs") == [due]
    assert bool(described.get("warnings")) is told
    assert not told or "the run's result is used" in described["warnings"][0]
    feeds = [{"x": np.random.default_rng(1).normal(size=(1, 3, 8, 24)).astype("f4")}]
    want = bench.run(folder, "onnx", feeds, described=described)[0]["y"]
    job = {"described": described, "shapes": [{"name": "one", "sizes": {"batch": 1, "w": 24}}]}
    notes, made = bench.transform("onnxruntime.session", folder, **job)
    written, _ = bench.call("describe", made, "onnx", described=described)
    assert [len(shape) for shape in list_shapes(written, "outputs")] == [3]
    found = bench.run(made, "onnx", feeds, described=described, metadata=notes.get("metadata", {}))
    np.testing.assert_allclose(found[0]["y"], want, atol=1e-5)
    other = make_bench(openvino)
    _, converted = other.transform("openvino.ir", folder, **job)
    assert [len(shape) for shape in list_shapes(other.describe(converted, "openvino-ir"), "outputs")] == [3]
    assert other.run(converted, "openvino-ir", feeds)[0]["y"].shape == want.shape


def test_a_graph_that_takes_no_odd_sizes_is_tried_with_others(bench, tmp_path):
    nodes = [
        helper.make_node("MaxPool", ["x"], ["p"], kernel_shape=[32, 32], strides=[32, 32]),
        helper.make_node("Resize", ["p", "roi", "scales"], ["r"], mode="nearest"),
        helper.make_node("Add", ["x", "r"], ["y"]),  # both are of one size for multiples of 32 alone
    ]
    dims = [None, 3, "high", "wide"]
    scales = [("roi", np.array([], "f4")), ("scales", np.array([1, 1, 32, 32], "f4"))]
    folder = write(tmp_path / "source", nodes, [value("x", dims)], [value("y", [None] * 4)], scales)
    described = describe(bench, folder, [{"name": "one", "sizes": {"batch": 1}}])
    assert list_shapes(described) == [["batch", 3, "high", "wide"]]
    assert list_shapes(described, "outputs") == [["batch", "y_1", "high", "wide"]]


def test_a_loop_that_random_numbers_do_not_end_is_ended(bench, tmp_path):
    body = helper.make_graph(
        [
            helper.make_node("Identity", ["go"], ["goes"]),
            helper.make_node("Add", ["have", "have"], ["has"]),
        ],
        "body",
        [value("turn", [], TensorProto.INT64), value("go", [], TensorProto.BOOL), value("have", ["N", 4])],
        [value("goes", [], TensorProto.BOOL), value("has", ["N", 4])],
    )
    nodes = [helper.make_node("Loop", ["most", "", "x"], ["y"], body=body)]
    most = [("most", np.array(2**62, "i8"))]
    folder = write(tmp_path / "source", nodes, [value("x", ["N", 4])], [value("y", ["N", 5])], most)
    assert list_shapes(describe(bench, folder), "outputs") == [["batch", 5]]
