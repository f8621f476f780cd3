"""What compilers are given of an ONNX model: folded, in an opset that they read, and computing the same."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import onnxruntime as ort
import pytest
from onnx import TensorProto, helper, numpy_helper

from hone_runtime.conversion import normalization
from hone_runtime.worker.refusal import UnsuitedError

pytestmark = pytest.mark.toolchain

BERT = {
    "inputs": [{"name": name, "dtype": "int64", "shape": ["batch", 16]} for name in ("ids", "mask")],
    "outputs": [{"name": "logits", "dtype": "float32", "shape": ["batch", 4]}],
}
LOWER = {"opsets": [13, 19], "ir": 8}


@pytest.fixture
def make_job(tmp_path):
    def make(folder: Path, described=BERT, *, takes=None):
        shapes = [{"name": f"batch{size}", "sizes": {"batch": size}} for size in (8, 1)]
        return {
            "input": {"path": str(folder), **described},
            "temporary": str(tmp_path),
            "shapes": shapes,
            "takes": takes,
        }

    return make


def save(folder: Path, *nodes, opset: int, kind=TensorProto.FLOAT, weights=(), shape=("batch", 4)):
    """Write a model from x to y, and return its folder and its description."""
    folder.mkdir(exist_ok=True)
    x, y = (helper.make_tensor_value_info(name, kind, shape) for name in ("x", "y"))
    opsets = [helper.make_opsetid("", opset), helper.make_opsetid("com.microsoft", 1)]
    graph = helper.make_graph(nodes, "small", [x], [y], weights)
    onnx.save(helper.make_model(graph, opset_imports=opsets, ir_version=10), folder / "model.onnx")
    dtype = helper.tensor_dtype_to_np_dtype(kind).name
    specs = [{"name": name, "dtype": dtype, "shape": list(shape)} for name in ("x", "y")]
    return folder, {"inputs": specs[:1], "outputs": specs[1:]}


def run(model, **feeds):
    raw = str(model) if isinstance(model, Path) else model.SerializeToString()
    return ort.InferenceSession(raw, providers=["CPUExecutionProvider"]).run(None, feeds)[0]


def list_operators(model) -> set[str]:
    return {node.op_type for node in model.graph.node}


def list_domains(model) -> list[str]:
    return [entry.domain for entry in model.opset_import]


def test_shapes_are_constants_where_the_sizes_are_fixed(make_job, berts):
    made, notes = normalization.normalize(make_job(berts / "raw"), sizes={"batch": 2})
    assert not list_operators(made) & {"Shape", "Expand", "ConstantOfShape", "Range", "Concat"}
    assert [dim.dim_value for dim in made.graph.input[0].type.tensor_type.shape.dim] == [2, 16]
    before, after = notes["normalized"]["operators"]
    assert after < before / 2
    feeds = {"ids": np.random.default_rng(1).integers(1, 100, (2, 16)), "mask": np.ones((2, 16), np.int64)}
    np.testing.assert_allclose(run(made, **feeds), run(berts / "raw" / "model.onnx", **feeds), atol=1e-6)


def test_a_newer_export_is_written_in_an_older_opset_and_in_one_file(make_job, berts):
    source = onnx.load(berts / "dynamo" / "model.onnx", load_external_data=False)
    assert source.ir_version == 10
    assert "Gelu" in list_operators(source)
    assert source.graph.initializer[0].external_data
    made, notes = normalization.normalize(make_job(berts / "dynamo", takes=LOWER), prefer=17)
    assert notes["normalized"]["opset"] == [20, 17]
    assert made.ir_version == 8
    assert "Gelu" not in list_operators(made)
    assert not any(tensor.external_data for tensor in made.graph.initializer)
    onnx.checker.check_model(made, full_check=True)
    feeds = {"ids": np.random.default_rng(1).integers(1, 100, (3, 16)), "mask": np.ones((3, 16), np.int64)}
    np.testing.assert_allclose(run(made, **feeds), run(berts / "dynamo" / "model.onnx", **feeds), atol=1e-6)


def test_domains_without_operators_are_gone_and_others_are_refused(make_job, berts, tmp_path):
    assert len(list_domains(onnx.load(berts / "domains" / "model.onnx"))) == 9
    assert list_domains(normalization.normalize(make_job(berts / "domains"))[0]) == [""]
    folder, described = save(tmp_path / "own", helper.make_node("FusedGelu", ["x"], ["y"], domain="com.shop"), opset=17)
    with pytest.raises(UnsuitedError, match=r"operators of com\.shop"):
        normalization.normalize(make_job(folder, described))


@pytest.mark.parametrize("approximate", ["none", "tanh"])
def test_gelu_is_written_in_what_it_stands_for(make_job, tmp_path, approximate):
    node = helper.make_node("Gelu", ["x"], ["y"], approximate=approximate)
    folder, described = save(tmp_path / "gelu", node, opset=20)
    made, _ = normalization.normalize(make_job(folder, described, takes=LOWER))
    x = np.linspace(-6, 6, 40, dtype=np.float32).reshape(10, 4)
    np.testing.assert_allclose(run(made, x=x), run(folder / "model.onnx", x=x), atol=1e-6)


def test_newer_functions_are_written_in_what_they_are_made_of(make_job, tmp_path):
    folder, described = save(tmp_path / "swish", helper.make_node("Swish", ["x"], ["y"]), opset=24)
    made, notes = normalization.normalize(make_job(folder, described, takes=LOWER))  # ONNX Runtime has no kernel for it
    assert notes["normalized"]["opset"] == [24, 19]
    x = np.linspace(-6, 6, 40, dtype=np.float32).reshape(10, 4)
    np.testing.assert_allclose(run(made, x=x), x / (1 + np.exp(-x)), atol=1e-6)


def test_what_an_opset_lacks_is_named(make_job, tmp_path):
    weights = [numpy_helper.from_array(np.ones(4, np.float32), "scale")]
    node = helper.make_node("RMSNormalization", ["x", "scale"], ["y"])
    folder, described = save(tmp_path / "newer", node, opset=23, weights=weights)
    with pytest.raises(UnsuitedError, match=r"its opset is 23, and .* opset 19: that has no RMSNormalization"):
        normalization.normalize(make_job(folder, described, takes=LOWER))


def test_an_older_model_is_written_in_the_lowest_opset_that_is_read(make_job, tmp_path):
    folder, described = save(tmp_path / "older", helper.make_node("Dropout", ["x"], ["y"], ratio=0.5), opset=9)
    made, notes = normalization.normalize(make_job(folder, described, takes={"opsets": [17, None], "ir": None}))
    assert notes["normalized"]["opset"] == [9, 17]
    x = np.ones((3, 4), np.float32)
    np.testing.assert_array_equal(run(made, x=x), x)


@pytest.mark.parametrize(
    ("operator", "quantizes"),
    [
        *((name, True) for name in ("QuantizeLinear", "DynamicQuantizeLinear", "QLinearConv", "MatMulInteger")),
        *((name, False) for name in ("DequantizeLinear", "IntegerEncoder", "VectorQuantizeLinear", "QLinearizer")),
    ],
)
def test_only_whole_names_of_operators_allow_outputs_that_are_rounded(operator, quantizes):
    """A function of the model may have any name."""
    graph = helper.make_graph([helper.make_node(operator, ["x"], ["y"])], "small", [], [])
    assert normalization._quantizes_activations(helper.make_model(graph)) is quantizes


def test_a_rewriting_that_computes_something_else_is_not_taken(make_job, tmp_path, monkeypatch, capsys):
    folder, described = save(tmp_path / "relu", helper.make_node("Relu", ["x"], ["y"]), opset=17)

    def fold_wrongly(_, model):
        wrong = onnx.ModelProto()
        wrong.CopyFrom(model)
        wrong.graph.node[0].op_type = "Neg"
        return wrong

    monkeypatch.setattr(normalization, "_fold", fold_wrongly)
    made, _ = normalization.normalize(make_job(folder, described))
    assert list_operators(made) == {"Relu"}
    assert "an output differs" in capsys.readouterr().out


def test_an_opset_in_which_it_computes_something_else_is_refused(make_job, tmp_path, monkeypatch):
    folder, described = save(tmp_path / "relu", helper.make_node("Relu", ["x"], ["y"]), opset=20)

    def write_wrongly(model, opset):
        wrong = helper.make_model(model.graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8)
        wrong.graph.node[0].op_type = "Neg"
        return wrong

    for name in ("_convert", "_relabel"):
        monkeypatch.setattr(normalization.opsets, name, write_wrongly)
    with pytest.raises(UnsuitedError, match="an output differs"):
        normalization.normalize(make_job(folder, described, takes=LOWER))


def test_weights_beyond_one_file_are_refused(make_job, berts, monkeypatch):
    monkeypatch.setattr(normalization, "LARGEST", 100_000)
    with pytest.raises(UnsuitedError, match="2 GB at most"):
        normalization.normalize(make_job(berts / "dynamo"))


def test_a_model_that_onnx_runtime_does_not_run_is_not_compared(make_job, tmp_path, capsys):
    folder, described = save(
        tmp_path / "text", helper.make_node("Identity", ["x"], ["y"]), opset=17, kind=TensorProto.STRING
    )
    described["inputs"][0]["dtype"] = "str"
    made, _ = normalization.normalize(make_job(folder, described))
    assert list_domains(made) == [""]
    assert "not compared" in capsys.readouterr().out
