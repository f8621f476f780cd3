"""Names of dimensions in ONNX graphs: which say nothing, and what a description writes in their place."""

from __future__ import annotations

import pytest

from hone_runtime.onnx.dimensions import declare, is_unknown

onnx = pytest.importorskip("onnx")


def value(name, dims):
    made = onnx.helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, dims)
    for dim, size in zip(made.type.tensor_type.shape.dim, dims, strict=True):
        if isinstance(size, int):
            dim.dim_value = size
    return made


def read(made):
    return [dim.dim_param or dim.dim_value for dim in made.type.tensor_type.shape.dim]


@pytest.mark.parametrize("size", [None, "", " ", "?", "-1", "None", "unk__123", -1])
def test_what_says_nothing(size):
    assert is_unknown(value("x", [size]).type.tensor_type.shape.dim[0])


@pytest.mark.parametrize("size", ["batch", "N", "x.1", "dim_2", "-", 0, 1, 224])
def test_what_says_something(size):
    assert not is_unknown(value("x", [size]).type.tensor_type.shape.dim[0])


def test_a_graph_is_given_what_its_description_knows():
    inputs = [value("x", [-1, 3, "?", "?"]), value("z", ["N", "side", "side"])]
    outputs = [value("y", [1, "seqlen"]), value("kept", ["N", "length + past"]), value("hidden", [None])]
    model = onnx.helper.make_model(onnx.helper.make_graph([], "g", inputs, outputs))
    shapes = {"x": ["batch", 3, "dim_2", "dim_3"], "z": ["batch", "side", "z_2"]}
    returned = {"y": ["y_0", 1, 5], "kept": ["batch", "length"]}
    sides = {"inputs": shapes, "outputs": returned}
    specs = {side: [{"name": name, "shape": shape} for name, shape in them.items()] for side, them in sides.items()}
    declare(model, specs)
    assert [read(each) for each in model.graph.input] == [shapes["x"], ["N", "side", "z_2"]]
    assert [read(each) for each in model.graph.output] == [["y_0", 1, 5], ["N", "length + past"], [0]]
