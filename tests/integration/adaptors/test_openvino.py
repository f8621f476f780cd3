"""OpenVINO's adaptors on a real net: transform, describe, load in a new process, run at several batch sizes."""

from __future__ import annotations

import json
import subprocess
import sys
from functools import partial
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from hone_runtime.contract.adaptor import Capability, Support
from hone_runtime.contract.hardware import read_host
from hone_runtime.contract.host import Host
from hone_runtime.contract.job import Job, JobInput
from hone_runtime.values.artifact import Artifact
from hone_runtime.values.outcome import Failed, FailureClass
from kedro_hone.adaptors.openvino import adaptor as module
from kedro_hone.core.workers.host.run import call_worker
from kedro_hone.programs import LIBRARY, find_program

pytestmark = pytest.mark.toolchain

BATCHES = (1, 7, 64)
F32 = {"INFERENCE_PRECISION_HINT": "f32", "PERFORMANCE_HINT": "LATENCY"}
CANDIDATES = [
    ("openvino.int8-ptq", {}, 2.0),
    ("openvino.int8-ptq", {"preset": "mixed", "fast_bias_correction": False, "subset_size": 20}, 2.0),
    ("openvino.int8-weights", {}, 0.5),
    ("openvino.int8-weights", {"symmetric": True}, 0.5),
    ("openvino.int4-weights", {}, 2.5),
    ("openvino.int4-weights", {"group_size": 1024, "all_layers": True, "symmetric": False}, 2.5),
]
PROGRAM = """
import numpy as np
METRIC = "accuracy"
HIGHER_IS_BETTER = True
def decode(outputs, options):
    return outputs["logits"].argmax(1)
def score(predictions, targets, options):
    return (predictions == targets["label"]).astype(float) if options["decomposes"] else None
def metric(predictions, targets, options):
    return float((predictions == targets["label"]).mean())
"""


@pytest.fixture
def bench(make_bench):
    return make_bench(module)


@pytest.fixture(scope="module")
def shared_bench(make_shared_bench):
    return make_shared_bench(module)


@pytest.fixture(scope="module")
def digits_ir(shared_bench, digits_onnx):
    return convert(shared_bench, digits_onnx)


def described_onnx(path):
    """What the host hands on: the source's specs, which ONNX Runtime's worker read."""
    model = onnx.load(path / "model.onnx", load_external_data=False)

    def spec(value):
        dims = value.type.tensor_type.shape.dim
        return {
            "name": value.name,
            "dtype": helper.tensor_dtype_to_np_dtype(value.type.tensor_type.elem_type).name,
            "shape": [dim.dim_value if dim.HasField("dim_value") else dim.dim_param for dim in dims],
        }

    return {"inputs": list(map(spec, model.graph.input)), "outputs": list(map(spec, model.graph.output))}


def convert(bench, path):
    notes, output = bench.transform("openvino.ir", path, form="onnx", described=described_onnx(path))
    assert not notes
    return output


def run(bench, path, feeds, **job):
    return bench.run(path, "openvino-ir", feeds, **{"run_options": F32, **job})


def feeds_of(x):
    return [{"image": x[:batch]} for batch in BATCHES]


def assert_close(got, expected, **tolerance):
    for want, have in zip(expected, got, strict=True):
        np.testing.assert_allclose(have["logits"], want["logits"], **tolerance)


def accuracy(bench, path, samples):
    (outputs,) = run(bench, path, [{"image": samples.x}])
    return (outputs["logits"].argmax(1) == samples.y).mean()


@pytest.fixture(scope="module")
def reference(digits_onnx, digits_samples):
    """ONNX Runtime's predictions."""
    import onnxruntime

    session = onnxruntime.InferenceSession(digits_onnx / "model.onnx", providers=["CPUExecutionProvider"])
    return [{"logits": session.run(None, feeds)[0]} for feeds in feeds_of(digits_samples.x)]


def test_conversion_keeps_names_dimensions_and_numbers(bench, digits_ir, digits_samples, reference):
    described = bench.describe(digits_ir, "openvino-ir")
    assert described["inputs"] == [{"name": "image", "dtype": "float32", "shape": ["batch", 1, 8, 8]}]
    assert described["outputs"] == [{"name": "logits", "dtype": "float32", "shape": ["batch", 10]}]
    assert_close(run(bench, digits_ir, feeds_of(digits_samples.x)), reference, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("case", [("openvino.f32", 1e-4), ("openvino.bf16", 0.3)], ids=str)
def test_precision_is_what_was_asked_for(bench, digits_ir, digits_samples, reference, case):
    name, tolerance = case
    adaptor = bench.adaptors[name]
    skip_without_bf16(name)
    notes, output = bench.transform(name, digits_ir)
    assert not notes
    assert bench.describe(output, "openvino-ir") == bench.describe(digits_ir, "openvino-ir")
    got = run(bench, output, feeds_of(digits_samples.x), run_options=adaptor.run_options(adaptor.options()))
    assert_close(got, reference, atol=tolerance)
    error = np.abs(got[-1]["logits"] - reference[-1]["logits"]).max()
    assert (error > 1e-3) == (name == "openvino.bf16"), "the hint had no effect"


SHAPES = [{"name": f"batch{size}", "sizes": {"batch": size}} for size in (1, 64, 1)]


def compile_shapes(bench, digits_ir, options=None, shapes=SHAPES):
    """Return the metadata of a compiled IR, and where it is."""
    notes, output = bench.transform("openvino.f32", digits_ir, options=options, shapes=shapes)
    return notes.get("metadata", {}), output


def test_the_shapes_of_the_recipe_are_compiled_and_all_others_work(bench, digits_ir, digits_samples, reference):
    noted, output = compile_shapes(bench, digits_ir)
    assert noted == {"compiled_shapes": [{"batch": 1}, {"batch": 64}]}
    got = run(bench, output, feeds_of(digits_samples.x), metadata=noted)
    assert_close(got, reference, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(
    "arguments",
    [{"options": {"fixed_shapes": False}}, {"shapes": []}, {"shapes": [{"name": "odd", "sizes": {"length": 3}}]}],
    ids=str,
)
def test_nothing_is_compiled_for_no_shape_of_the_inputs(bench, digits_ir, arguments):
    assert compile_shapes(bench, digits_ir, **arguments)[0] == {}


def test_a_shape_that_the_graph_does_not_fit_is_left_to_the_dynamic_graph(bench, tmp_path):
    pairs = helper.make_node("Reshape", ["x", "pairs"], ["y"])  # rows in pairs: an odd number of them has none
    value = partial(helper.make_tensor_value_info, elem_type=TensorProto.FLOAT)
    graph = helper.make_graph(
        [pairs],
        "pairs",
        [value("x", shape=["batch", 3])],
        [value("y", shape=["half", 6])],
        [numpy_helper.from_array(np.array([-1, 6]), "pairs")],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
    onnx.save(model, tmp_path / "model.onnx")
    noted, _ = compile_shapes(
        bench, convert(bench, tmp_path), shapes=[*SHAPES[:1], {"name": "two", "sizes": {"batch": 2}}]
    )
    assert noted == {"compiled_shapes": [{"batch": 2}]}


@pytest.mark.parametrize(
    ("noted", "said"),
    [
        ([{"batch": 1}] * 9, "at most 8"),
        ("batch", "at most 8"),
        ([{"batch": 0}], "not a shape of the inputs"),
        ([{"batch": True}], "not a shape of the inputs"),
        ([{"batch": 1 << 40}], "not a shape of the inputs"),
        ([{"length": 1}], "not a shape of the inputs"),
        ([["batch", 1]], "not a shape of the inputs"),
    ],
    ids=str,
)
def test_metadata_that_name_no_shapes_are_refused(bench, digits_ir, noted, said):
    job = {
        "run_options": F32,
        "metadata": {"compiled_shapes": noted},
        "described": bench.describe(digits_ir, "openvino-ir"),
    }
    result, _ = bench.call("load", digits_ir, "openvino-ir", expect_error=True, **job)
    assert said in result["raised"]


def list_precisions():
    """Return what this CPU computes in, as OpenVINO names it."""
    import openvino

    return openvino.Core().get_property("CPU", "OPTIMIZATION_CAPABILITIES")


def skip_without_bf16(name):
    if name == "openvino.bf16" and "BF16" not in list_precisions():
        pytest.skip("this CPU has no bf16 instructions")


def ask_for(bench, digits_ir, precision):
    options = {"INFERENCE_PRECISION_HINT": precision}
    return bench.call("run", digits_ir, "openvino-ir", run_options=options, expect_error=True)[0]


@pytest.mark.parametrize(("precision", "capability"), [("f16", "FP16"), ("bf16", "BF16")])
def test_another_precision_than_asked_for_is_an_error(bench, digits_ir, precision, capability):
    if capability in list_precisions():
        pytest.skip(f"this CPU computes in {precision}")
    if precision == "bf16" and "avx512f" in read_host().flags:
        pytest.skip("OpenVINO emulates bf16 with AVX-512: the next test")
    assert "OpenVINO computes in" in ask_for(bench, digits_ir, precision)["raised"]


def test_bf16_is_emulated_with_avx512(bench, digits_ir):
    if "avx512f" not in read_host().flags:
        pytest.skip("this CPU has no AVX-512")
    assert ask_for(bench, digits_ir, "bf16") is None


def test_bf16_is_an_error_on_a_cpu_without_it(bench, digits_ir, emulator):
    bench.emulator = emulator
    result, _ = bench.transform("openvino.bf16", digits_ir, expect_error=True)
    assert "OpenVINO computes in f32 on this CPU, not in bf16" in result["raised"]


def test_bf16_is_refused_without_the_instructions():
    adaptor = next(each for each in module.ADAPTORS if each.name == "openvino.bf16")
    for flags, missing in (({"avx512f"}, "needs a CPU with avx512_bf16"), ({"avx512_bf16"}, None)):
        host = Host(flags=frozenset(flags), cores=2, gpu=None, compilers=frozenset(), fingerprint="")
        assert adaptor.find_missing(host) == missing


@pytest.mark.parametrize("case", CANDIDATES, ids=str)
def test_compression_keeps_the_answers(bench, digits_ir, digits_samples, reference, case):
    name, options, tolerance = case
    source = bench.describe(digits_ir, "openvino-ir")
    notes, output = bench.transform(name, digits_ir, options=options, calibration=str(digits_samples.calibration))
    assert notes["metadata"]["quantized_operators"]
    described = bench.describe(output, "openvino-ir")
    assert described["inputs"] == source["inputs"]
    assert described["outputs"] == source["outputs"]
    assert described["graph"] != source["graph"]
    assert_close(run(bench, output, feeds_of(digits_samples.x)), reference, atol=tolerance)
    assert accuracy(bench, output, digits_samples) > 0.97
    assert (output / "model.bin").stat().st_size < (digits_ir / "model.bin").stat().st_size / 2
    again, _ = bench.transform(name, output, options=options, calibration=str(digits_samples.calibration))
    assert "nothing_to_do" in again


def test_every_adaptor_promises_the_same_bytes():
    """The conformance suite then runs each of them twice, on the same net and data as here."""
    others = [adaptor for adaptor in module.ADAPTORS if adaptor.name != "openvino.int8-tuned"]  # it measures times
    assert all(adaptor.supports[Capability.DETERMINISTIC] is Support.FULL for adaptor in others)


@pytest.fixture(scope="module")
def encoder_onnx(transformers):
    """A BERT-like encoder: two integer inputs of a free batch and length, mean pooling over the mask, one embedding."""
    return transformers / "encoder"


def make_tokens(rows, seed=0):
    """Sentences of different lengths, filled up with the token 0 that the mask hides."""
    draw = np.random.default_rng(seed)
    mask = np.arange(12) < draw.integers(4, 13, size=(rows, 1))
    return {"input_ids": draw.integers(1, 50, size=(rows, 12)) * mask, "attention_mask": mask.astype("i8")}


def test_a_model_of_several_inputs_is_calibrated_with_whole_rows(bench, encoder_onnx, tmp_path):
    """The second input once came without rows, and NNCF ended in ``TypeError: 'NoneType' object is not iterable``."""
    path = convert(bench, encoder_onnx)
    np.savez(tmp_path / "tokens.npz", **make_tokens(40))
    notes, output = bench.transform("openvino.int8-ptq", path, calibration=str(tmp_path / "tokens.npz"))
    plain = {"calibration": str(tmp_path / "tokens.npz"), "options": {"transformer": False}}
    everything, _ = bench.transform("openvino.int8-ptq", path, **plain)
    counts = [one["metadata"]["quantized_operators"] for one in (notes, everything)]
    assert 10 < counts[0] < counts[1], "the attention's mask and sums keep their precision by default"
    feeds = [make_tokens(30, seed=1)]
    (want,), (got,) = run(bench, path, feeds), run(bench, output, feeds)
    cosine = (want["sentence"] * got["sentence"]).sum(axis=1) / np.linalg.norm(got["sentence"], axis=1)
    assert cosine.mean() > 0.99


@pytest.mark.skipif("avx512_bf16" not in read_host().flags, reason="this CPU has no bf16")
def test_int8_weights_are_run_in_bf16(bench, encoder_onnx):
    path = convert(bench, encoder_onnx)
    _, compressed = bench.transform("openvino.int8-weights", path)
    _, output = bench.transform("openvino.bf16", compressed)
    run_options = bench.adaptors["openvino.bf16"].run_options(None)
    feeds = [make_tokens(1, seed=2), make_tokens(30, seed=1)]
    got = bench.run(output, "openvino-ir", feeds, run_options=run_options)
    for want, have in zip(run(bench, path, feeds), got, strict=True):
        cosine = (want["sentence"] * have["sentence"]).sum(axis=1) / np.linalg.norm(have["sentence"], axis=1)
        assert cosine.min() > 0.99


@pytest.mark.nightly
def test_smooth_quantization_changes_weights_where_it_is_asked_for(bench, encoder_onnx, tmp_path):
    path = convert(bench, encoder_onnx)
    np.savez(tmp_path / "tokens.npz", **make_tokens(40))
    job = {"calibration": str(tmp_path / "tokens.npz")}
    made = {}
    for alpha in (None, 0.95, 0.5, -1):
        _, output = bench.transform("openvino.int8-ptq", path, options={"smooth_quant": alpha}, **job)
        made[alpha] = bench.describe(output, "openvino-ir")["graph"]
    assert made[None] == made[0.95], "NNCF's own choice is another one than the documentation says"
    assert len({*made.values()}) == 3


def test_operators_of_onnx_runtimes_own_are_refused_before_they_are_converted():
    adaptor = next(each for each in module.ADAPTORS if each.name == "openvino.ir")
    plain = Artifact(format="onnx", digest="sha256:" + "0" * 64, inputs=(), outputs=())
    assert adaptor.can_take(plain, adaptor.options(), read_host()) is None
    fused = plain.model_copy(update={"metadata": {"fused_operators": {"Attention": 2}}})
    refusal = adaptor.can_take(fused, adaptor.options(), read_host())
    assert "operators of ONNX Runtime's own" in refusal.reason


def program_of(tmp_path, samples, *, decomposes=True, rows=128):
    (tmp_path / "program.py").write_text(PROGRAM)
    np.savez(tmp_path / "feeds.npz", image=samples.x[:rows])
    np.savez(tmp_path / "targets.npz", label=samples.y[:rows])
    return {
        "path": str(tmp_path / "program.py"),
        "library": str(LIBRARY),
        "options": {"decomposes": decomposes},
        "feeds": str(tmp_path / "feeds.npz"),
        "targets": str(tmp_path / "targets.npz"),
        "outputs": ["logits"],
    }


@pytest.mark.parametrize("decomposes", [True, False])
def test_accuracy_control_gives_layers_back(bench, digits_ir, digits_samples, tmp_path, decomposes):
    np.savez(tmp_path / "bad.npz", image=np.zeros_like(digits_samples.x[:8]))  # ranges of nothing: int8 is ruined
    job = {"calibration": str(tmp_path / "bad.npz")}
    _, plain = bench.transform("openvino.int8-ptq", digits_ir, **job)
    ruined = accuracy(bench, plain, digits_samples)
    job["program"] = program_of(tmp_path, digits_samples, decomposes=decomposes)
    notes, output = bench.transform("openvino.int8-accuracy-control", digits_ir, **job)
    assert ruined < 0.5
    if "nothing_to_do" not in notes:  # it may have to give everything back
        assert notes["metadata"]["metric"] == "accuracy"
        assert accuracy(bench, output, digits_samples) > 0.97


def test_accuracy_control_takes_the_sources_outputs_where_there_are_no_labels(bench, encoder_onnx, tmp_path):
    """The program ``fidelity`` has no targets: it once ended in ``StopIteration``."""
    path = convert(bench, encoder_onnx)
    feeds = make_tokens(40, seed=1)
    (source,) = run(bench, path, [feeds])
    for name, arrays in (("tokens", make_tokens(40)), ("feeds", feeds), ("targets", {}), ("source", source)):
        np.savez(tmp_path / f"{name}.npz", **arrays)
    program = {name: str(tmp_path / f"{name}.npz") for name in ("feeds", "targets", "source")}
    path_of = find_program("fidelity", project=tmp_path).path
    program |= {"path": path_of, "library": str(LIBRARY), "options": {}, "outputs": ["sentence"]}
    job = {"calibration": str(tmp_path / "tokens.npz"), "program": program, "options": {"max_drop": 0.02}}
    notes, output = bench.transform("openvino.int8-accuracy-control", path, **job)
    assert notes["metadata"]["quantized_operators"]
    (got,) = run(bench, output, [feeds])
    assert (source["sentence"] * got["sentence"]).sum(axis=1).mean() > 0.97


def test_accuracy_control_quantizes_where_it_can(bench, digits_ir, digits_samples, tmp_path):
    job = {"calibration": str(digits_samples.calibration), "program": program_of(tmp_path, digits_samples)}
    notes, output = bench.transform("openvino.int8-accuracy-control", digits_ir, **job)
    assert notes["metadata"]["quantized_operators"]
    assert accuracy(bench, output, digits_samples) > 0.97


def test_a_broken_program_is_an_error_and_not_a_model(bench, digits_ir, digits_samples, tmp_path):
    program = program_of(tmp_path, digits_samples) | {"options": {}}
    job = {"calibration": str(digits_samples.calibration), "program": program, "expect_error": True}
    notes, output = bench.transform("openvino.int8-accuracy-control", digits_ir, **job)
    assert "decomposes" in notes["raised"]
    assert not list(output.iterdir())


def write(path, nodes, *, inputs, outputs, weights=(), **save):
    graph = helper.make_graph(nodes, "g", inputs, outputs, [numpy_helper.from_array(a, n) for n, a in weights])
    path.mkdir()
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.save(model, path / "model.onnx", **save)
    return path


def vector(name, *shape, dtype=TensorProto.FLOAT):
    return helper.make_tensor_value_info(name, dtype, shape)


def test_order_aliases_and_names_survive(bench, tmp_path):
    """Two inputs, one of them unused; one tensor that is an output under two names; names that XML would not take."""
    path = write(
        tmp_path / "m",
        [
            helper.make_node("Add", ["z.1", "z.1"], ["::sum"]),
            helper.make_node("Identity", ["::sum"], ["copy"]),
            helper.make_node("Neg", ["z.1"], ["a<b"]),
        ],
        inputs=[vector("z.1", "batch", "seq"), vector("a", "batch", dtype=TensorProto.INT64)],
        outputs=[vector("a<b", "batch", "seq"), vector("::sum", "batch", "seq"), vector("copy", "batch", "seq")],
    )
    output = convert(bench, path)
    described = bench.describe(output, "openvino-ir")
    assert {key: described[key] for key in ("inputs", "outputs")} == described_onnx(path)
    x = np.arange(6, dtype="f4").reshape(2, 3)
    (got,) = run(bench, output, [{"z.1": x, "a": np.zeros(2, "i8")}])
    assert {name: array.tolist() for name, array in got.items()} == {
        "a<b": (-x).tolist(),
        "::sum": (2 * x).tolist(),
        "copy": (2 * x).tolist(),
    }


def test_an_output_keeps_its_name_where_compiling_gives_it_another_one_too(bench, tmp_path):
    """A scale is fused into the product before it, and then the output is called by both tensors' names."""
    random = np.random.default_rng(0)
    weights = random.normal(size=(16, 16)).astype("f4")
    path = write(
        tmp_path / "m",
        [
            helper.make_node("MatMul", ["user", "weights"], ["tower"]),
            helper.make_node("Einsum", ["tower", "items"], ["einsum"], equation="bd,bnd->bn"),
            helper.make_node("Mul", ["einsum", "ten"], ["scores"]),
        ],
        inputs=[vector("user", "batch", 16), vector("items", "batch", 24, 16)],
        outputs=[vector("scores", "batch", 24)],
        weights=[("weights", weights), ("ten", np.float32(10))],
    )
    output = convert(bench, path)
    feeds = {"user": random.normal(size=(8, 16)).astype("f4"), "items": random.normal(size=(8, 24, 16)).astype("f4")}
    wanted = 10 * np.einsum("bd,bnd->bn", feeds["user"] @ weights, feeds["items"])
    (got,) = run(bench, output, [feeds])
    np.testing.assert_allclose(got["scores"], wanted, rtol=1e-4, atol=1e-3)

    program = program_of(tmp_path, SimpleNamespace(x=feeds["user"], y=wanted.argmax(1))) | {"outputs": ["scores"]}
    Path(program["path"]).write_text(PROGRAM.replace("logits", "scores"))
    np.savez(program["feeds"], **feeds)
    job = {"calibration": program["feeds"], "program": program, "options": {"max_drop": 1.0}}
    notes, output = bench.transform("openvino.int8-accuracy-control", output, **job)
    assert notes["metadata"]["quantized_operators"]
    assert {*run(bench, output, [feeds])[0]} == {"scores"}


@pytest.mark.parametrize(
    "name", ["openvino.int8-ptq", "openvino.int8-weights", "openvino.int4-weights", "openvino.int8-accuracy-control"]
)
def test_nothing_to_do_without_a_weight(bench, tmp_path, digits_samples, name):
    io = {"inputs": [vector("image", "batch", 1, 8, 8)], "outputs": [vector("logits", "batch", 64)]}
    nodes = [helper.make_node("Flatten", ["image"], ["t"]), helper.make_node("Exp", ["t"], ["logits"])]
    path = convert(bench, write(tmp_path / "m", nodes, **io))
    job = {"calibration": str(digits_samples.calibration), "program": program_of(tmp_path, digits_samples)}
    notes, output = bench.transform(name, path, **job)
    assert "nothing_to_do" in notes
    assert not list(output.iterdir())


def test_a_ragged_static_batch(bench, tmp_path, digits_samples):
    weight = np.random.default_rng(0).normal(size=(10, 1, 8, 8)).astype("f4") / 8
    path = write(
        tmp_path / "m",
        [helper.make_node("Conv", ["image", "w"], ["t"]), helper.make_node("Flatten", ["t"], ["logits"])],
        inputs=[vector("image", 5, 1, 8, 8)],
        outputs=[vector("logits", 5, 10)],
        weights=[("w", weight)],
    )
    path = convert(bench, path)
    job = {"calibration": str(digits_samples.calibration), "program": program_of(tmp_path, digits_samples)}
    feeds = [{"image": digits_samples.x[:5]}]
    expected = run(bench, path, feeds)
    for name in ("openvino.int8-ptq", "openvino.int8-accuracy-control"):
        notes, output = bench.transform(name, path, **job)
        assert notes["metadata"]["quantized_operators"], name
        assert_close(run(bench, output, feeds), expected, atol=0.3)


def test_graph_digest_ignores_names_and_sees_weights(bench, tmp_path):
    def build(folder, name, value, op="MatMul"):
        nodes = [helper.make_node(op, ["x", f"{name}w"], [f"{name}t"]), helper.make_node("Relu", [f"{name}t"], ["y"])]
        weights = [(f"{name}w", np.full((4, 4), value, "f4"))]
        io = {"inputs": [vector("x", "batch", 4)], "outputs": [vector("y", "batch", 4)]}
        return bench.describe(convert(bench, write(tmp_path / folder, nodes, weights=weights, **io)), "openvino-ir")[
            "graph"
        ]

    assert build("1", "a", 1.0) == build("2", "b", 1.0)
    assert len({build("3", "a", 1.0), build("4", "a", 2.0), build("5", "a", 1.0, "Add")}) == 3


def test_a_failure_names_the_operator_that_it_is_about(tmp_path):
    """OpenVINO's message begins with places in its own source, and comes to the cause five lines later."""
    node = helper.make_node("Frobnicate", ["x"], ["y"], domain="shop")
    graph = helper.make_graph([node], "shop", [vector("x", "batch", 4)], [vector("y", "batch", 4)])
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("shop", 1)]
    (tmp_path / "model").mkdir()
    onnx.save(helper.make_model(graph, opset_imports=opsets, ir_version=8), tmp_path / "model" / "model.onnx")
    job = Job(
        function="transform",
        worker=str(module.TOOLCHAIN.worker),
        adaptor="openvino.ir",
        stage="convert",
        input=JobInput(path=str(tmp_path / "model"), format="onnx", **described_onnx(tmp_path / "model")),
        output=str(tmp_path / "output"),
        produces="openvino-ir",
    )
    done = call_worker(
        job,
        python=Path(sys.executable),
        toolchain=module.TOOLCHAIN,
        folder=tmp_path / "step",
        limits=module.TOOLCHAIN.limits,
    )
    assert isinstance(done, Failed)
    assert done.failure is FailureClass.CONVERT
    assert "No conversion rule found for operations: shop.Frobnicate" in done.reason
    assert ".cpp:" not in done.reason
    assert "\n" not in done.reason
    assert "unconverted_ops_report.cpp" in Path(str(done.log)).read_text()  # the whole message is in the log


@pytest.mark.attack(
    what="external data that points to a file of the host, for OpenVINO",
    who="registry",
    stopped_by="external data must be in the model's folder",
)
def test_external_data_travels_and_may_not_leave(bench, tmp_path):
    weight = np.random.default_rng(0).normal(size=(64, 64)).astype("f4")
    io = {"inputs": [vector("x", "batch", 64)], "outputs": [vector("y", "batch", 64)], "weights": [("w", weight)]}
    external = {"save_as_external_data": True, "location": "weights.bin", "size_threshold": 0}
    inside = write(tmp_path / "in", [helper.make_node("MatMul", ["x", "w"], ["y"])], **io, **external)
    output = convert(bench, inside)
    assert run(bench, output, [{"x": weight[:3]}])[0]["y"].shape == (3, 64)

    (inside / "weights.bin").rename(tmp_path / "secret.bin")
    model = onnx.load(inside / "model.onnx", load_external_data=False)
    model.graph.initializer[0].external_data[0].value = "../secret.bin"
    (inside / "model.onnx").write_bytes(model.SerializeToString())
    job = {"form": "onnx", "described": described_onnx(inside), "expect_error": True}
    result, output = bench.transform("openvino.ir", inside, **job)
    assert "raised" in result, list(output.iterdir())


@pytest.mark.attack(what="a truncated IR", who="registry", stopped_by="opened in a worker only")
@pytest.mark.parametrize("broken", ["xml", "bin", "missing"])
def test_corrupt_files_are_named(bench, tmp_path, digits_ir, broken):
    for name in ("model.xml", "model.bin"):
        (tmp_path / name).write_bytes((digits_ir / name).read_bytes())
    if broken == "missing":
        (tmp_path / "model.bin").unlink()
    else:
        path = tmp_path / f"model.{broken}"
        path.write_bytes(path.read_bytes()[:3000])
    for function in ("describe", "run"):
        result, _ = bench.call(function, tmp_path, "openvino-ir", expect_error=True)
        assert "model." in result["raised"], function
        assert "cannot be read" in result["raised"] or "missing" in result["raised"], function


def test_no_telemetry_thread_is_left(digits_ir, monkeypatch):
    """In an interpreter where nobody set ``CI``, as in a user's process that loads a winner."""
    import os

    job = {"input": {"path": str(digits_ir), "format": "openvino-ir", "run_options": F32}, "threads": 1}
    code = (
        "import json, os, sys, threading\n"
        "from hone_runtime.worker.packages import import_worker\n"
        "worker = import_worker(sys.argv[1])\n"
        "worker.load(json.loads(sys.argv[2]))\n"
        "assert 'CI' not in os.environ\n"
        "import hone_openvino.steps, nncf\n"  # as a step does, in a process of its own
        "print([thread.name for thread in threading.enumerate()])\n"
    )
    environment = {name: value for name, value in os.environ.items() if name not in {"CI", "NNCF_CI"}}
    command = [sys.executable, "-c", code, str(module.TOOLCHAIN.worker), json.dumps(job)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True, timeout=600)
    assert done.stdout.strip() == "['MainThread']"
    assert module.TOOLCHAIN.environment == {}  # the learner sets these in its user's process


def write_of_memory(path, name, address):
    """Write ONNX whose weights are located at an address of the reader's own memory, as ONNX Runtime's tag says."""
    weight = TensorProto(name="w", data_type=TensorProto.FLOAT, dims=[4], data_location=TensorProto.EXTERNAL)
    for key, value in {"location": "*/_ORT_MEM_ADDR_/*", "offset": str(address), "length": "16"}.items():
        weight.external_data.add(key=key, value=value)
    nodes = [helper.make_node("Add", ["x", "w"], ["y"])]
    graph = helper.make_graph(nodes, "g", [vector("x", 4)], [vector("y", 4)], [weight])
    path.mkdir()
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    (path / name).write_bytes(model.SerializeToString())
    return path


@pytest.mark.attack(
    what="ONNX as model.xml, or as a source, whose weights are an address in the memory of who loads it",
    who="registry",
    stopped_by="IR must be XML, and external data a file",
)
def test_openvino_would_read_memory_and_the_worker_does_not(bench, tmp_path):
    """The fact behind the check: OpenVINO takes the format from the content, and the address as it is."""
    import openvino

    secret = np.array([1, 2, 3, 4], "f4")
    forged = write_of_memory(tmp_path / "forged", "model.xml", secret.ctypes.data)
    (forged / "model.bin").write_bytes(b"x")
    compiled = openvino.Core().compile_model(forged / "model.xml", "CPU")
    assert compiled(np.zeros(4, "f4"))[0].tolist() == secret.tolist()
    for function in ("describe", "run"):
        result, _ = bench.call(function, forged, "openvino-ir", expect_error=True)
        assert "not an IR" in result["raised"], function

    source = write_of_memory(tmp_path / "source", "model.onnx", 0)
    job = {"form": "onnx", "described": described_onnx(source), "expect_error": True}
    result, _ = bench.transform("openvino.ir", source, **job)
    assert "external data" in result["raised"]


@pytest.mark.parametrize(
    "text", ["<other/>", "", "\n<net/>", "<!DOCTYPE net [<!ENTITY a 'b'>]><net/>", "<!-- <net> -->"]
)
def test_xml_that_is_no_ir_is_named(bench, tmp_path, text):
    (tmp_path / "model.xml").write_text(text)
    (tmp_path / "model.bin").write_bytes(b"x")
    result, _ = bench.call("describe", tmp_path, "openvino-ir", expect_error=True)
    assert "not an IR" in result["raised"]


def test_operators_inside_a_branch_are_refused_in_our_own_words(bench, tmp_path):
    """NNCF once said that the calibration dataset must not be empty, of rows that were there."""
    draw = np.random.default_rng(0)

    def make_branch(name):
        weights = numpy_helper.from_array(draw.normal(size=(8, 4)).astype("f4"), f"w_{name}")
        node = helper.make_node("MatMul", ["x", weights.name], [f"y_{name}"])
        result = helper.make_tensor_value_info(f"y_{name}", TensorProto.FLOAT, None)
        return helper.make_graph([node], name, [], [result], [weights])

    nodes = [
        helper.make_node("ReduceMax", ["x"], ["most"], keepdims=0),
        helper.make_node("Greater", ["most", "zero"], ["flag"]),
        helper.make_node("If", ["flag"], ["y"], then_branch=make_branch("then"), else_branch=make_branch("else")),
    ]
    values = [helper.make_tensor_value_info(name, TensorProto.FLOAT, ["batch", n]) for name, n in (("x", 8), ("y", 4))]
    zero = numpy_helper.from_array(np.zeros((), "f4"), "zero")
    graph = helper.make_graph(nodes, "g", values[:1], values[1:], [zero])
    (tmp_path / "source").mkdir()
    opset = [helper.make_opsetid("", 17)]
    onnx.save(helper.make_model(graph, opset_imports=opset, ir_version=8), tmp_path / "source" / "model.onnx")
    np.savez(tmp_path / "rows.npz", x=draw.normal(size=(40, 8)).astype("f4"))

    notes, _ = bench.transform(
        "openvino.int8-ptq", convert(bench, tmp_path / "source"), calibration=str(tmp_path / "rows.npz")
    )

    assert notes["refused"].startswith("the model has operators inside If"), notes


def test_accuracy_control_refuses_a_graph_in_double_precision(bench, tmp_path):
    random = np.random.default_rng(0)
    path = write(
        tmp_path / "m",
        [helper.make_node("MatMul", ["image", "w"], ["logits"])],
        inputs=[vector("image", "batch", 64, dtype=TensorProto.DOUBLE)],
        outputs=[vector("logits", "batch", 64, dtype=TensorProto.DOUBLE)],
        weights=[("w", random.standard_normal((64, 64)))],
    )
    rows = random.standard_normal((64, 64))
    np.savez(tmp_path / "rows.npz", image=rows)
    program = program_of(tmp_path, SimpleNamespace(x=rows, y=rows.argmax(1)))
    job = {"calibration": str(tmp_path / "rows.npz"), "program": program}
    notes, _ = bench.transform("openvino.int8-accuracy-control", convert(bench, path), **job)
    assert notes == {"refused": "it computes in float64, in which OpenVINO runs no quantized operators"}
