"""ONNX Runtime's adaptors on a real net: transform, describe, load in a new process, run at several batch sizes."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import onnx
import onnxruntime as ort
import pytest
from onnx import TensorProto, helper, numpy_helper

from hone_runtime.contract.adaptor import Capability, Support
from hone_runtime.worker.imports import load_file
from kedro_hone.adaptors.onnxruntime import adaptor as module

pytestmark = pytest.mark.toolchain

BATCHES = (1, 7, 64)
CANDIDATES = [
    ("onnxruntime.int8-dynamic", {}, 0.3),
    ("onnxruntime.int8-dynamic", {"per_channel": False, "reduce_range": True}, 0.5),
    ("onnxruntime.int8-static", {}, 1.5),
    ("onnxruntime.int8-static", {"activations": "uint8", "calibration": "entropy"}, 1.5),
    ("onnxruntime.int8-static", {"calibration": "percentile", "operators": ["Conv"], "per_channel": False}, 1.5),
    ("onnxruntime.int4-weights", {}, 2.0),
    ("onnxruntime.int4-weights", {"symmetric": False, "block_size": 16, "accuracy_level": 1}, 2.0),
]


CONFIG = {"model_type": "bert", "num_attention_heads": 4, "hidden_size": 32}


@pytest.fixture
def bench(make_bench):
    return make_bench(module)


@pytest.fixture(scope="module")
def expected(make_shared_bench, digits_onnx, digits_samples):
    """What the source returns."""
    return make_shared_bench(module).run(digits_onnx, "onnx", feeds_of(digits_samples.x))


def feeds_of(x):
    return [{"image": x[:batch]} for batch in BATCHES]


def accuracy(bench, path, samples, **job):
    (outputs,) = bench.run(path, "onnx", [{"image": samples.x}], **job)
    return (outputs["logits"].argmax(1) == samples.y).mean()


def test_describe_names_the_dynamic_batch(bench, digits_onnx):
    described = bench.describe(digits_onnx, "onnx")
    assert described["inputs"] == [{"name": "image", "dtype": "float32", "shape": ["batch", 1, 8, 8]}]
    assert described["outputs"] == [{"name": "logits", "dtype": "float32", "shape": ["batch", 10]}]


@pytest.mark.parametrize("case", CANDIDATES, ids=str)
def test_compression_keeps_the_answers(bench, digits_onnx, digits_samples, expected, case):
    name, options, tolerance = case
    source = bench.describe(digits_onnx, "onnx")
    notes, output = bench.transform(name, digits_onnx, options=options, calibration=str(digits_samples.calibration))
    assert notes["metadata"]["quantized_operators"]
    described = bench.describe(output, "onnx")
    assert described["inputs"] == source["inputs"]
    assert described["outputs"] == source["outputs"]
    assert described["graph"] != source["graph"]
    got = bench.run(output, "onnx", feeds_of(digits_samples.x))
    for want, have in zip(expected, got, strict=True):
        np.testing.assert_allclose(have["logits"], want["logits"], atol=tolerance)
    assert accuracy(bench, output, digits_samples) > 0.97
    assert sum(path.stat().st_size for path in output.iterdir()) < (digits_onnx / "model.onnx").stat().st_size


@pytest.mark.parametrize("level", ["basic", "extended", "layout", "all"])
def test_session_gives_the_same_numbers(bench, digits_onnx, digits_samples, expected, level):
    notes, output = bench.transform("onnxruntime.session", digits_onnx, options={"optimization": level})
    assert not notes
    adaptor = bench.adaptors["onnxruntime.session"]
    run_options = adaptor.run_options(adaptor.options(optimization=level))
    got = bench.run(output, "onnx", feeds_of(digits_samples.x), run_options=run_options)
    for want, have in zip(expected, got, strict=True):
        np.testing.assert_allclose(have["logits"], want["logits"], rtol=1e-4, atol=1e-5)


SHAPES = [{"name": f"batch{size}", "sizes": {"batch": size}} for size in (1, 64, 1)]
DISABLED = {"graph_optimization": "disabled"}


def test_the_graph_is_opened_for_each_shape_of_the_recipe_and_all_others_work(
    bench, digits_onnx, digits_samples, expected
):
    notes, output = bench.transform("onnxruntime.session", digits_onnx, shapes=SHAPES)
    noted = notes["metadata"]
    assert noted == {"compiled_shapes": [{"batch": 1}, {"batch": 64}]}
    got = bench.run(output, "onnx", feeds_of(digits_samples.x), run_options=DISABLED, metadata=noted)
    for want, have in zip(expected, got, strict=True):
        np.testing.assert_allclose(have["logits"], want["logits"], rtol=1e-4, atol=1e-5)

    model = {**bench.describe(output, "onnx"), "path": str(output), "run_options": DISABLED, "metadata": noted}
    opened = load_file("hone_test_onnxruntime", str(module.TOOLCHAIN.worker)).load({"input": model, "threads": 1})
    assert opened.find(((64, 1, 8, 8),)).shapes == {"image": [64, 1, 8, 8]}
    assert opened.find(((7, 1, 8, 8),)).shapes == {"image": ["batch", 1, 8, 8]}


def test_what_depends_on_the_sizes_is_computed_when_a_fixed_shape_is_opened(bench, tmp_path, monkeypatch):
    """A saved graph has what any number of rows needs, such as a branch on that number."""
    model = onnx.parser.parse_model("""
        <ir_version: 9, opset_import: ["": 17]> branch (float[batch, 3] x) => (float[batch, 3] y)
        <int64[1] one = {1}, int64[1] first = {0}> {
            sizes = Shape(x)
            rows = Gather(sizes, first)
            alone = Equal(rows, one)
            y = If(alone) <
                then_branch = single () => (float[batch, 3] a) { a = Exp(x) },
                else_branch = several () => (float[batch, 3] b) { b = Neg(x) }
            >
        }""")
    onnx.save(model, tmp_path / "model.onnx")
    notes, output = bench.transform("onnxruntime.session", tmp_path, shapes=SHAPES)
    described = {**bench.describe(output, "onnx"), "path": str(output), "run_options": DISABLED, **notes}

    assert list_operators(described, np.ones((1, 3), "f4"), tmp_path, monkeypatch) == {"Exp"}
    assert "If" in list_operators(described, np.ones((7, 3), "f4"), tmp_path, monkeypatch)


def list_operators(described, x, folder, monkeypatch):
    """Return the operators that a call computes, by ONNX Runtime's own profile."""
    open_one = ort.InferenceSession

    def profile(path, options, **arguments):
        options.enable_profiling, options.profile_file_prefix = True, str(folder / "profile")
        return open_one(path, options, **arguments)

    with monkeypatch.context() as patched:
        patched.setattr(ort, "InferenceSession", profile)
        opened = load_file("hone_test_onnxruntime", str(module.TOOLCHAIN.worker)).load(
            {"input": described, "threads": 1}
        )
    opened.run({"x": x})
    events = json.loads(Path(opened.find((x.shape,))._session.end_profiling()).read_text())
    return {name for event in events if (name := event.get("args", {}).get("op_name"))}


@pytest.mark.parametrize(
    "arguments",
    [{"options": {"fixed_shapes": False}}, {"shapes": []}, {"shapes": [{"name": "odd", "sizes": {"length": 3}}]}],
    ids=str,
)
def test_it_is_opened_once_for_no_shape_of_the_inputs(bench, digits_onnx, arguments):
    assert bench.transform("onnxruntime.session", digits_onnx, **arguments)[0] == {}


def test_a_shape_that_the_graph_does_not_fit_is_left_to_the_dynamic_session(bench, tmp_path):
    pairs = helper.make_node("Reshape", ["x", "pairs"], ["y"])  # rows in pairs: an odd number of them has none
    graph = helper.make_graph(
        [pairs],
        "pairs",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["batch", 3])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["half", 6])],
        [numpy_helper.from_array(np.array([-1, 6]), "pairs")],
    )
    onnx.save(
        helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9), tmp_path / "model.onnx"
    )
    shapes = [{"name": f"batch{size}", "sizes": {"batch": size}} for size in (1, 2)]
    notes, output = bench.transform("onnxruntime.session", tmp_path, shapes=shapes)
    feeds = [{"x": np.ones((rows, 3), np.float32)} for rows in (2, 4)]
    got = bench.run(output, "onnx", feeds, run_options=DISABLED, metadata=notes["metadata"])
    assert [one["y"].shape for one in got] == [(1, 6), (2, 6)]


CRASHING = {
    "fp16": ("float16", "float16[4, 3] w", "t = Transpose<perm=[1, 0, 2]>(x) y = MatMul(t, w)"),
    "casts to fp16": (
        "float32",
        "float[4, 3] w",
        "h = Cast<to=10>(x) v = Cast<to=10>(w) t = Transpose<perm=[1, 0, 2]>(h) y = MatMul(t, v)",
    ),
    "one-hot": ("int64", "float[4, 3] w", "t = Transpose<perm=[1, 0, 2]>(x) c = Cast<to=1>(t) y = MatMul(c, w)"),
    "through another": (
        "int64",
        "float[4, 3] w",
        "t = Transpose<perm=[1, 0, 2]>(x) a = Identity(t) c = Cast<to=1>(a) y = MatMul(c, w)",
    ),
}


@pytest.mark.parametrize("name", CRASHING)
def test_a_cast_between_transposition_and_product_does_not_end_the_process(bench, tmp_path, name):
    """A pass of ONNX Runtime looks into operators that another one has not resolved (its issue 28392)."""
    dtype, weight, body = CRASHING[name]
    of = {"float16": "float16", "float32": "float", "int64": "int64"}[dtype]
    half = "fp16" in name
    head = f'<ir_version: 10, opset_import: ["": 20]> product ({of}[batch, 16, 4] x)'
    model = onnx.parser.parse_model(f"{head} => ({'float16' if half else 'float'}[n, batch, k] y) {{ {body} }}")
    weights = np.arange(12, dtype=np.float16 if weight.startswith("float16") else np.float32).reshape(4, 3)
    model.graph.initializer.append(numpy_helper.from_array(weights, "w"))
    onnx.save(model, tmp_path / "model.onnx")
    metadata = {"crashes": bench.describe(tmp_path, "onnx")["crashes"]}
    x = np.random.default_rng(0).integers(0, 5, (2, 16, 4)).astype(dtype)
    expected = x.astype(np.float32).transpose(1, 0, 2) @ weights.astype(np.float32)

    (opened,) = bench.run(tmp_path, "onnx", [{"x": x}], metadata=metadata)
    np.testing.assert_allclose(opened["y"], expected, rtol=1e-2)
    _, output = bench.transform("onnxruntime.session", tmp_path, metadata=metadata)
    (built,) = bench.run(output, "onnx", [{"x": x}], run_options=DISABLED, metadata=metadata)
    np.testing.assert_allclose(built["y"], expected, rtol=1e-2)


def test_a_transformer_in_fp32_keeps_its_fusions(bench, transformers):
    assert "crashes" not in bench.describe(transformers / "eager", "onnx")


def test_operators_of_estimators_have_nothing_that_is_planned_by_shape(bench, tmp_path):
    node = helper.make_node("Scaler", ["x"], ["y"], domain="ai.onnx.ml", offset=[0.0], scale=[2.0])
    tensors = [helper.make_tensor_value_info(name, TensorProto.FLOAT, ["batch", 3]) for name in "xy"]
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("ai.onnx.ml", 3)]
    graph = helper.make_graph([node], "scaler", tensors[:1], tensors[1:])
    onnx.save(helper.make_model(graph, opset_imports=opsets, ir_version=9), tmp_path / "model.onnx")
    assert bench.transform("onnxruntime.session", tmp_path, shapes=SHAPES)[0] == {}


@pytest.mark.parametrize(
    ("noted", "said"), [([{"batch": 1}] * 9, "at most 8"), ([{"batch": 0}], "not a shape of the inputs")], ids=str
)
def test_metadata_that_name_no_shapes_are_refused(bench, digits_onnx, noted, said):
    described = bench.describe(digits_onnx, "onnx")
    metadata = {"compiled_shapes": noted}
    result, _ = bench.call("load", digits_onnx, "onnx", expect_error=True, metadata=metadata, described=described)
    assert said in result["raised"]


def test_int8_keeps_its_integer_kernels_when_compiled(bench, digits_onnx, digits_samples):
    calibration = str(digits_samples.calibration)
    _, quantized = bench.transform("onnxruntime.int8-static", digits_onnx, calibration=calibration)
    _, compiled = bench.transform("onnxruntime.session", quantized)
    types = {node.op_type for node in onnx.load(compiled / "model.onnx").graph.node}
    assert "QLinearConv" in types
    run_options = {"graph_optimization": "disabled"}
    expected = bench.run(quantized, "onnx", feeds_of(digits_samples.x))
    got = bench.run(compiled, "onnx", feeds_of(digits_samples.x), run_options=run_options)
    for want, have in zip(expected, got, strict=True):
        np.testing.assert_allclose(have["logits"], want["logits"], atol=1e-4)


def test_every_adaptor_promises_the_same_bytes():
    """The conformance suite then runs each of them twice, on the same net and data as here."""
    others = [adaptor for adaptor in module.ADAPTORS if adaptor.name != "onnxruntime.int8-tuned"]  # it measures times
    assert all(adaptor.supports[Capability.DETERMINISTIC] is Support.FULL for adaptor in others)


def make_tokens(rows, length):
    """Sentences of different lengths, filled up with the token 0 that the mask hides."""
    draw = np.random.default_rng(rows)
    mask = np.arange(length) < draw.integers(3, length + 1, size=(rows, 1))
    return {"input_ids": draw.integers(1, 50, size=(rows, length)) * mask, "attention_mask": mask.astype("i8")}


TOKENS = [make_tokens(1, 12), make_tokens(7, 5), make_tokens(3, 12)]


@pytest.mark.parametrize("metadata", [{}, {"transformers": {"config": CONFIG}}], ids=["graph", "config"])
def test_attention_is_fused_with_sizes_of_the_graph_or_of_the_configuration(bench, transformers, metadata):
    path = transformers / "eager"
    notes, output = bench.transform("onnxruntime.fused", path, metadata=metadata)
    assert notes["metadata"]["fused_operators"]["Attention"] == 2
    nodes = [node for node in onnx.load(output / "model.onnx").graph.node if node.op_type == "Attention"]
    assert [helper.get_node_attr_value(node, "num_heads") for node in nodes] == [4, 4]
    for want, have in zip(bench.run(path, "onnx", TOKENS), bench.run(output, "onnx", TOKENS), strict=True):
        np.testing.assert_allclose(have["sentence"], want["sentence"], atol=1e-5)


def test_normalization_without_a_bias_is_left_alone(bench, transformers, tmp_path):
    """As ModernBERT has it: ONNX Runtime's pattern for it and the sum before it reads a bias."""
    model = onnx.load(transformers / "eager" / "model.onnx")
    for node in model.graph.node:
        if node.op_type == "LayerNormalization":
            del node.input[2:]
    (tmp_path / "bare").mkdir()
    onnx.save(model, tmp_path / "bare" / "model.onnx")
    notes, output = bench.transform("onnxruntime.fused", tmp_path / "bare")
    assert notes["metadata"]["fused_operators"]["Attention"] == 2
    for want, have in zip(bench.run(tmp_path / "bare", "onnx", TOKENS), bench.run(output, "onnx", TOKENS), strict=True):
        np.testing.assert_allclose(have["sentence"], want["sentence"], atol=1e-5)


def test_a_family_without_patterns_of_its_own_is_looked_at_as_bert(bench, transformers):
    metadata = {"transformers": {"config": {**CONFIG, "model_type": "unheard-of"}}}
    notes, _ = bench.transform("onnxruntime.fused", transformers / "eager", metadata=metadata)
    assert notes["metadata"]["fused_operators"]["Attention"] == 2
    notes, _ = bench.transform("onnxruntime.fused", transformers / "eager", options={"model_type": "gpt2"})
    assert notes["metadata"]["fused_operators"]["Attention"] == 2


def test_fused_attention_is_quantized_in_one_step_or_in_two(bench, transformers):
    path = transformers / "eager"
    notes, once = bench.transform("onnxruntime.int8-fused", path)
    assert notes["metadata"]["quantized_operators"]["QAttention"] == 2
    _, fused = bench.transform("onnxruntime.fused", path)
    _, twice = bench.transform("onnxruntime.int8-dynamic", fused)
    assert bench.describe(once, "onnx")["graph"] == bench.describe(twice, "onnx")["graph"]
    for want, have in zip(bench.run(path, "onnx", TOKENS), bench.run(once, "onnx", TOKENS), strict=True):
        assert (want["sentence"] * have["sentence"]).sum(axis=1).min() > 0.99


@pytest.mark.parametrize("name", ["onnxruntime.fused", "onnxruntime.int8-fused"])
def test_nothing_to_do_where_no_attention_was_fused(bench, transformers, digits_onnx, name):
    """The newer exporter's graph of SDPA, in which ONNX Runtime knows norms and GELU only; and a net without any."""
    for path in (transformers / "encoder", digits_onnx):
        notes, output = bench.transform(name, path)
        assert "no attention of the graph could be fused" in notes["nothing_to_do"]
        assert not list(output.iterdir())


def write(path, nodes, *, inputs, outputs, weights=(), opset=17, **save):
    graph = helper.make_graph(nodes, "g", inputs, outputs, [numpy_helper.from_array(a, n) for n, a in weights])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8)
    path.mkdir()
    onnx.save(model, path / "model.onnx", **save)
    return path


def vector(name, *shape, dtype=TensorProto.FLOAT):
    return helper.make_tensor_value_info(name, dtype, shape)


@pytest.mark.parametrize("name", ["onnxruntime.int8-dynamic", "onnxruntime.int4-weights", "onnxruntime.int8-static"])
def test_nothing_to_do_without_a_weight(bench, tmp_path, name):
    path = write(
        tmp_path / "m",
        [helper.make_node("Exp", ["x"], ["y"])],
        inputs=[vector("x", None, 4)],
        outputs=[vector("y", None, 4)],
    )
    np.savez(tmp_path / "c.npz", x=np.ones((8, 4), "f4"))
    notes, output = bench.transform(name, path, calibration=str(tmp_path / "c.npz"))
    assert "nothing_to_do" in notes
    assert not list(output.iterdir())


def test_nothing_to_do_twice(bench, digits_onnx, digits_samples):
    job = {"calibration": str(digits_samples.calibration)}
    for name in ("onnxruntime.int8-dynamic", "onnxruntime.int8-static", "onnxruntime.int4-weights"):
        _, once = bench.transform(name, digits_onnx, **job)
        notes, _ = bench.transform(name, once, **job)
        assert "nothing_to_do" in notes, name


def test_a_graph_whose_activations_are_quantized_at_run_time_is_quantized_already(bench, digits_onnx, digits_samples):
    _, dynamic = bench.transform("onnxruntime.int8-dynamic", digits_onnx)

    notes, _ = bench.transform("onnxruntime.int8-static", dynamic, calibration=str(digits_samples.calibration))

    assert notes == {"nothing_to_do": "the graph is quantized already"}


def test_convolutions_beside_weights_of_four_bits_are_quantized(bench, digits_onnx, digits_samples):
    """``MatMulNBits`` reads such weights, and computes with floats."""
    calibration = str(digits_samples.calibration)
    _, weights = bench.transform("onnxruntime.int4-weights", digits_onnx)
    present = {node.op_type for node in onnx.load(weights / "model.onnx").graph.node}
    assert {"MatMulNBits", "Conv"} <= present

    notes, output = bench.transform("onnxruntime.int8-static", weights, calibration=calibration)

    assert notes["metadata"]["quantized_operators"]["QuantizeLinear"] > 0
    assert accuracy(bench, output, digits_samples) > 0.97
    again, _ = bench.transform("onnxruntime.int8-static", output, calibration=calibration)
    assert again == {"nothing_to_do": "the graph is quantized already"}


def test_old_opset_and_a_ragged_static_batch(bench, tmp_path, digits_samples):
    rng = np.random.default_rng(0)
    weight = rng.normal(size=(4, 1, 3, 3)).astype("f4")
    path = write(
        tmp_path / "m",
        [helper.make_node("Conv", ["image", "w"], ["y"], pads=[1, 1, 1, 1])],
        inputs=[vector("image", 5, 1, 8, 8)],
        outputs=[vector("y", 5, 4, 8, 8)],
        weights=[("w", weight)],
        opset=11,
    )
    job = {"calibration": str(digits_samples.calibration)}  # 256 rows are no multiple of 5
    _, output = bench.transform("onnxruntime.int8-static", path, options={"calibration": "entropy"}, **job)
    feeds = [{"image": digits_samples.x[:5]}]
    (want,), (have,) = bench.run(path, "onnx", feeds), bench.run(output, "onnx", feeds)
    np.testing.assert_allclose(have["y"], want["y"], atol=0.2)


@pytest.mark.parametrize("shape", [(6,), (1, 6)])
def test_a_bias_of_one_or_of_two_dimensions_is_quantized(bench, tmp_path, shape):
    rng = np.random.default_rng(0)
    weights = [("w", rng.normal(size=(8, 6)).astype("f4")), ("b", rng.normal(size=shape).astype("f4"))]
    path = write(
        tmp_path / "m",
        [helper.make_node("Gemm", ["x", "w", "b"], ["y"])],
        inputs=[vector("x", "batch", 8)],
        outputs=[vector("y", "batch", 6)],
        weights=weights,
    )
    rows = rng.normal(size=(64, 8)).astype("f4")
    np.savez(tmp_path / "rows.npz", x=rows)

    _, output = bench.transform("onnxruntime.int8-static", path, calibration=str(tmp_path / "rows.npz"))

    (want,), (have,) = bench.run(path, "onnx", [{"x": rows}]), bench.run(output, "onnx", [{"x": rows}])
    np.testing.assert_allclose(have["y"], want["y"], atol=0.2)


def test_imports_of_operators_that_are_there_twice_are_one(bench, tmp_path):
    rng = np.random.default_rng(0)
    path = write(
        tmp_path / "m",
        [helper.make_node("MatMul", ["x", "w"], ["y"])],
        inputs=[vector("x", "batch", 8)],
        outputs=[vector("y", "batch", 6)],
        weights=[("w", rng.normal(size=(8, 6)).astype("f4"))],
    )
    model = onnx.load(path / "model.onnx")
    model.opset_import.extend([onnx.helper.make_opsetid("", model.opset_import[0].version)] * 2)
    onnx.save(model, path / "model.onnx")
    np.savez(tmp_path / "rows.npz", x=rng.normal(size=(64, 8)).astype("f4"))

    notes, output = bench.transform("onnxruntime.int8-static", path, calibration=str(tmp_path / "rows.npz"))

    assert "quantized_operators" in notes["metadata"]
    assert [each.domain for each in onnx.load(output / "model.onnx").opset_import].count("") == 1


def test_calibration_takes_as_many_rows_as_any_input(bench, tmp_path):
    rng = np.random.default_rng(0)
    path = write(
        tmp_path / "m",
        [helper.make_node("MatMul", ["x", "w"], ["z"]), helper.make_node("Concat", ["z", "state"], ["y"], axis=1)],
        inputs=[vector("x", "rows", 8), vector("state", 1, 4)],
        outputs=[vector("y", 1, 10)],
        weights=[("w", rng.normal(size=(8, 6)).astype("f4"))],
    )
    rows = {"x": rng.normal(size=(32, 8)).astype("f4"), "state": rng.normal(size=(32, 4)).astype("f4")}
    np.savez(tmp_path / "rows.npz", **rows)

    _, output = bench.transform("onnxruntime.int8-static", path, calibration=str(tmp_path / "rows.npz"))

    feeds = [{name: array[:1] for name, array in rows.items()}]
    (want,), (have,) = bench.run(path, "onnx", feeds), bench.run(output, "onnx", feeds)
    np.testing.assert_allclose(have["y"], want["y"], atol=0.2)


def test_describe_names_unnamed_dimensions_and_types(bench, tmp_path):
    path = write(
        tmp_path / "m",
        [helper.make_node("Gather", ["table", "ids"], ["y"]), helper.make_node("Identity", ["mask"], ["z"])],
        inputs=[vector("ids", "N", "seq", dtype=TensorProto.INT64), vector("mask", "N", None, dtype=TensorProto.BOOL)],
        outputs=[vector("y", "N", "seq", 3), vector("z", "N", None, dtype=TensorProto.BOOL)],
        weights=[("table", np.ones((5, 3), "f4"))],
    )
    described = bench.describe(path, "onnx")
    assert [(spec["dtype"], spec["shape"]) for spec in described["inputs"]] == [
        ("int64", ["batch", "seq"]),
        ("bool", ["batch", "dim_1"]),
    ]
    assert [spec["shape"] for spec in described["outputs"]] == [["batch", "seq", 3], ["batch", "z_1"]]


def test_graph_digest_ignores_names_and_sees_weights(bench, tmp_path):
    def build(folder, name, value, op="MatMul"):
        nodes = [helper.make_node(op, ["x", f"{name}w"], [f"{name}t"]), helper.make_node("Relu", [f"{name}t"], ["y"])]
        weights = [(f"{name}w", np.full((4, 4), value, "f4"))]
        io = {"inputs": [vector("x", "b", 4)], "outputs": [vector("y", "b", 4)]}
        return bench.describe(write(tmp_path / folder, nodes, weights=weights, **io), "onnx")["graph"]

    assert build("1", "a", 1.0) == build("2", "b", 1.0)
    assert len({build("3", "a", 1.0), build("4", "a", 2.0), build("5", "a", 1.0, "Add")}) == 3


@pytest.mark.attack(
    what="external data that points to a file of the host, by name or by a link",
    who="registry",
    stopped_by="external data must be in the model's folder",
)
def test_external_data_travels_and_may_not_leave(bench, tmp_path):
    weight = np.random.default_rng(0).normal(size=(64, 64)).astype("f4")
    io = {"inputs": [vector("x", "b", 64)], "outputs": [vector("y", "b", 64)], "weights": [("w", weight)]}
    nodes = [helper.make_node("MatMul", ["x", "w"], ["y"])]
    inside = write(tmp_path / "in", nodes, **io)
    plain = bench.describe(inside, "onnx")
    external = {"save_as_external_data": True, "location": "weights.bin", "size_threshold": 0}
    onnx.save(onnx.load(inside / "model.onnx"), inside / "model.onnx", **external)
    assert bench.describe(inside, "onnx") == plain
    for name in ("onnxruntime.session", "onnxruntime.int8-dynamic", "onnxruntime.int4-weights"):
        _, output = bench.transform(name, inside)
        assert bench.run(output, "onnx", [{"x": weight[:3]}])[0]["y"].shape == (3, 64), name

    (inside / "weights.bin").rename(tmp_path / "secret.bin")
    described = {"inputs": plain["inputs"], "outputs": plain["outputs"]}
    escapes = [lambda: (inside / "weights.bin").symlink_to(tmp_path / "secret.bin")]
    model = onnx.load(inside / "model.onnx", load_external_data=False)
    model.graph.initializer[0].external_data[0].value = "../secret.bin"
    escapes.append(lambda: (inside / "model.onnx").write_bytes(model.SerializeToString()))
    for escape in escapes:
        escape()
        refused = bench.describe(inside, "onnx")
        assert refused["slug"] == "model-external-data"
        assert refused["refused"].startswith("external data of ")
        for function in ("run", "transform"):
            job = {"described": described, "adaptor": "onnxruntime.int8-dynamic", "expect_error": True}
            result, _ = bench.call(function, inside, "onnx", **job)
            assert result["raised"].startswith("external data"), (function, result)


@pytest.mark.parametrize("content", [b"no model at all", b""])
def test_a_corrupt_file_is_named(bench, tmp_path, content):
    (tmp_path / "model.onnx").write_bytes(content)
    for function in ("describe", "run"):
        result, _ = bench.call(function, tmp_path, "onnx", expect_error=True)
        assert "model.onnx cannot be read" in result["raised"], function


@pytest.mark.attack(what="a truncated ONNX file", who="registry", stopped_by="opened in a worker only")
def test_a_truncated_file_is_named(bench, tmp_path, digits_onnx):
    (tmp_path / "model.onnx").write_bytes((digits_onnx / "model.onnx").read_bytes()[:100_000])
    for function in ("describe", "run"):
        result, _ = bench.call(function, tmp_path, "onnx", expect_error=True)
        assert "model.onnx cannot be read" in result["raised"], function


def test_rows_with_missing_values_have_no_ranges(bench, tmp_path, digits_onnx, digits_samples):
    """ONNX Runtime says "scale issue" of them."""
    with np.load(digits_samples.calibration) as rows:
        arrays = {name: rows[name].copy() for name in rows.files}
    arrays["image"][:, 0, 2] = np.nan
    np.savez(tmp_path / "missing.npz", **arrays)
    notes, _ = bench.transform("onnxruntime.int8-static", digits_onnx, calibration=str(tmp_path / "missing.npz"))
    assert notes["refused"] == "the calibration rows have NaN in image, so their ranges are unknown"


def test_a_graph_in_double_precision_has_no_weights_of_four_bits(bench, tmp_path):
    """``MatMulNBits`` computes in fp32 or fp16: what the quantizer writes of others is no valid graph."""
    weight = np.random.default_rng(0).standard_normal((64, 64))
    path = write(
        tmp_path / "m",
        [helper.make_node("MatMul", ["x", "w"], ["y"])],
        inputs=[vector("x", "batch", 64, dtype=TensorProto.DOUBLE)],
        outputs=[vector("y", "batch", 64, dtype=TensorProto.DOUBLE)],
        weights=[("w", weight)],
    )
    notes, output = bench.transform("onnxruntime.int4-weights", path)
    assert notes == {"refused": "its MatMul and Gemm are in float64, and weights of four bits are for fp32 and fp16"}
    assert not list(output.iterdir())
