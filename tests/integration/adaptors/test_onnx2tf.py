"""onnx2tf in an environment of its own: nets of several layouts, whose files keep the tensors that ONNX has."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
from conftest import make_once
from onnx import TensorProto, helper, numpy_helper

from hone_runtime.values.artifact import Artifact, TensorSpec
from hone_runtime.values.outcome import Refused
from kedro_hone.adaptors.litert import adaptor as litert
from kedro_hone.adaptors.onnx2tf import adaptor as module

pytestmark = [pytest.mark.toolchain, pytest.mark.large]

SCRIPT = Path(__file__).with_name("layout_models.py")
ROWS = [{"name": f"batch{size}", "sizes": {"batch": size}} for size in (1, 5)]
OFFLINE = {"HTTPS_PROXY": "http://127.0.0.1:9"}
"""As a worker has no network: where an input may be an image, its channels last, onnx2tf wants to download some."""
TEXTS = [{"name": f"{b}x{n}", "sizes": {"batch": b, "length": n}} for b, n in ((1, 12), (3, 7))]


def specify(name: str, dtype: str, *shape: int | str) -> dict:
    return {"name": name, "dtype": dtype, "shape": [*shape]}


IDS = [specify("input_ids", "int64", "batch", "length"), specify("attention_mask", "int64", "batch", "length")]
MAP = specify("map", "float32", "batch", 4, 10, 14)
SPECS = {
    "digits": {
        "inputs": [specify("image", "float32", "batch", 1, 8, 8)],
        "outputs": [specify("logits", "float32", "batch", 10)],
    },
    "images": {
        "inputs": [specify("image", "float32", "batch", 3, 10, 14)],
        "outputs": [MAP, specify("scores", "float32", "batch", 5)],
    },
    "last": {"inputs": [specify("image", "float32", "batch", 10, 14, 3)], "outputs": [MAP]},
    "encoder": {"inputs": IDS, "outputs": [specify("sentence", "float32", "batch", 32)]},
    "bert": {"inputs": IDS, "outputs": [specify("words", "float32", "batch", "length", 32)]},
}


@pytest.fixture(scope="session")
def locate(request, shared):
    """Return a function from a name of ``SPECS`` to the folder of its model, which is made when it is asked for."""

    def make(folder: Path) -> None:
        command = [sys.executable, "-W", "ignore", str(SCRIPT), str(folder)]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)

    def locate(name: str) -> Path:
        if name == "digits":
            return request.getfixturevalue("digits_onnx")
        if name == "encoder":
            return request.getfixturevalue("transformers") / "encoder"
        return make_once(shared / "layouts", make) / name

    return locate


@pytest.fixture(scope="module")
def bench(make_shared_bench, environments):
    environment = environments.ensure(module.TOOLCHAIN)
    assert environment.versions["onnx2tf"].startswith("1.29."), environment
    bench = make_shared_bench(module)
    bench.python = environment.python
    return bench


@pytest.fixture(scope="module")
def runtime(make_shared_bench, environments):
    bench = make_shared_bench(litert)
    bench.python = environments.ensure(litert.TOOLCHAIN).python
    return bench


@pytest.fixture(scope="module")
def converted(bench, locate):
    """Return a function from the name of a model to its notes and files; each is converted once."""
    found: dict[str, tuple[dict, Path]] = {}

    def convert(name: str) -> tuple[dict, Path]:
        if name not in found:
            told = {"described": SPECS[name], "shapes": list_shapes(name), "variables": OFFLINE}
            found[name] = bench.transform("onnx2tf.tflite", locate(name), **told)
        return found[name]

    return convert


def list_shapes(name: str) -> list[dict]:
    return TEXTS if name in {"encoder", "bert"} else ROWS


def feed(name: str, shape: dict) -> dict[str, np.ndarray]:
    """Return rows as a model gets them; texts are of several lengths."""
    draw, feeds = np.random.default_rng(3), {}
    for spec in SPECS[name]["inputs"]:
        size = [shape["sizes"].get(dim, dim) for dim in spec["shape"]]
        feeds[spec["name"]] = draw.standard_normal(size).astype(np.float32)
    if "input_ids" in feeds:
        mask = (np.arange(size[1]) < draw.integers(2, size[1] + 1, (size[0], 1))).astype(np.int64)
        feeds = {"input_ids": draw.integers(1, 50, size), "attention_mask": mask}
    return feeds


def compute(folder: Path, feeds: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Return what ONNX Runtime makes of rows."""
    session = onnxruntime.InferenceSession(folder / "model.onnx", providers=["CPUExecutionProvider"])
    return dict(zip([value.name for value in session.get_outputs()], session.run(None, feeds), strict=True))


@pytest.mark.parametrize("name", SPECS)
def test_the_files_predict_what_the_model_does(runtime, converted, locate, name):
    notes, output = converted(name)
    told = {"described": SPECS[name], "static_shapes": list_shapes(name)}
    assert notes == {"outputs": SPECS[name]["outputs"], "static_shapes": [one["name"] for one in told["static_shapes"]]}
    feeds = [feed(name, shape) for shape in told["static_shapes"]]
    for given, found in zip(feeds, runtime.run(output, "tflite", feeds, **told), strict=True):
        due = compute(locate(name), given)
        assert found.keys() == due.keys()
        for key, want in due.items():
            assert (found[key].dtype, found[key].shape) == (want.dtype, want.shape)
            np.testing.assert_allclose(found[key], want, atol=2e-4 * np.abs(want).max())


@pytest.mark.parametrize("name", ["images", "bert"])
def test_both_toolchains_describe_what_was_written(bench, runtime, converted, name):
    _, output = converted(name)
    told = {"described": SPECS[name], "static_shapes": list_shapes(name)}
    assert bench.call("describe", output, "tflite", **told)[0] == SPECS[name]
    assert runtime.call("describe", output, "tflite", **told)[0] == SPECS[name]


def test_every_digit_is_predicted_as_by_the_model(runtime, converted, locate, digits_samples):
    told = {"described": SPECS["digits"], "static_shapes": ROWS}
    feeds = [{"image": digits_samples.x[start : start + 5]} for start in range(0, 400, 5)]
    found = runtime.run(converted("digits")[1], "tflite", feeds, **told)
    due = compute(locate("digits"), {"image": digits_samples.x[:400]})["logits"]
    assert np.array_equal(np.concatenate([one["logits"] for one in found]).argmax(1), due.argmax(1))


def write(folder: Path, nodes: list, *, inputs: dict[str, tuple], outputs: dict[str, tuple], constants=()) -> Path:
    """Write a small graph of float32 tensors."""
    folder.mkdir()
    sides = [
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name, shape in side.items()]
        for side in (inputs, outputs)
    ]
    graph = helper.make_graph(nodes, "graph", *sides, constants)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9)
    onnx.save(model, folder / "model.onnx")
    return folder


def describe(inputs: dict[str, tuple], outputs: dict[str, tuple]) -> dict:
    sides = {"inputs": inputs, "outputs": outputs}
    return {side: [specify(name, "float32", *shape) for name, shape in found.items()] for side, found in sides.items()}


def test_names_that_tensorflow_does_not_take_are_kept(bench, runtime, tmp_path):
    inputs, outputs = (
        {"in put:0": ("batch", 4), "/x.1": ("batch", 4)},
        {"onnx::Add_3": ("batch", 4), "%y": ("batch", 4)},
    )
    nodes = [helper.make_node("Add", [*inputs], ["onnx::Add_3"]), helper.make_node("Sub", [*inputs], ["%y"])]
    folder, described = write(tmp_path / "names", nodes, inputs=inputs, outputs=outputs), describe(inputs, outputs)
    _, output = bench.transform("onnx2tf.tflite", folder, described=described, shapes=ROWS[1:])
    feeds = {name: np.full((5, 4), value, np.float32) for name, value in zip(inputs, (3, 1), strict=True)}
    (found,) = runtime.run(output, "tflite", [feeds], described=described, static_shapes=ROWS[1:])
    assert {name: float(array[0, 0]) for name, array in found.items()} == {"onnx::Add_3": 4, "%y": 2}


def test_norms_are_those_of_vectors(bench, runtime, tmp_path):
    """onnx2tf fails at one axis, and makes the norm of a matrix of two."""
    inputs, outputs = {"x": ("batch", 3, 4)}, {"one": ("batch", 3), "two": ("batch",), "sum": ("batch",)}
    nodes = [
        helper.make_node("ReduceL2", ["x", "last"], ["one"], keepdims=0),
        helper.make_node("ReduceL2", ["x", "both"], ["two"], keepdims=0),
        helper.make_node("ReduceL1", ["x", "both"], ["sum"], keepdims=0),
    ]
    axes = [numpy_helper.from_array(np.array(found), name) for name, found in (("last", [2]), ("both", [1, 2]))]
    folder = write(tmp_path / "norms", nodes, inputs=inputs, outputs=outputs, constants=axes)
    described = describe(inputs, outputs)
    notes, output = bench.transform("onnx2tf.tflite", folder, described=described, shapes=ROWS[1:])
    assert "static_shapes" in notes, notes
    feeds = {"x": np.random.default_rng(0).standard_normal((5, 3, 4)).astype(np.float32)}
    (found,) = runtime.run(output, "tflite", [feeds], described=described, static_shapes=ROWS[1:])
    for name, due in compute(folder, feeds).items():
        np.testing.assert_allclose(found[name], due, rtol=1e-5)


def test_sizes_that_only_the_graph_names_become_the_recipes(bench, tmp_path):
    inputs, outputs = {"x": ("batch", 4)}, {"y": ("unk__1", "unk__2")}
    folder = write(tmp_path / "named", [helper.make_node("Relu", ["x"], ["y"])], inputs=inputs, outputs=outputs)
    notes, _ = bench.transform("onnx2tf.tflite", folder, described=describe(inputs, outputs), shapes=ROWS)
    assert notes["outputs"] == describe({}, {"y": ("batch", 4)})["outputs"]


def test_what_computes_something_else_is_not_written(bench, tmp_path):
    inputs, outputs = {"x": ("batch", 4)}, {"y": ("batch", 4)}
    nodes = [helper.make_node("RandomUniformLike", ["x"], ["n"]), helper.make_node("Add", ["x", "n"], ["y"])]
    folder = write(tmp_path / "random", nodes, inputs=inputs, outputs=outputs)
    notes, output = bench.transform("onnx2tf.tflite", folder, described=describe(inputs, outputs), shapes=ROWS)
    assert "differs from the model by up to" in notes["failed"]["reason"], notes
    assert notes["failed"]["class"] == "convert"
    assert not list(output.iterdir())


def test_an_operator_that_it_does_not_know_is_refused_by_name(bench, tmp_path):
    inputs, outputs = {"x": ("batch", 4)}, {"y": ("batch", 4)}
    nodes = [helper.make_node("CastLike", ["x", "x"], ["y"])]
    folder = write(tmp_path / "unknown", nodes, inputs=inputs, outputs=outputs)
    notes, _ = bench.transform("onnx2tf.tflite", folder, described=describe(inputs, outputs), shapes=ROWS)
    assert notes == {"refused": "onnx2tf has no operator CastLike"}


def test_a_model_of_other_rows_is_refused(bench, tmp_path):
    inputs, outputs = {"x": (7, 4)}, {"y": (7, 4)}
    folder = write(tmp_path / "fixed", [helper.make_node("Relu", ["x"], ["y"])], inputs=inputs, outputs=outputs)
    notes, _ = bench.transform("onnx2tf.tflite", folder, described=describe(inputs, outputs), shapes=ROWS)
    assert "fixed to [7, 4]" in notes["refused"]


@pytest.mark.parametrize(("shape", "metadata"), [((), {}), (("batch", 4), {"quantization": "int8"})])
def test_what_is_hopeless_is_refused_without_a_worker(bench, shape, metadata):
    spec = TensorSpec(name="x", dtype="float32", shape=shape)
    artifact = Artifact(format="onnx", digest=f"sha256:{0:064}", inputs=(spec,), outputs=(spec,), metadata=metadata)
    (adaptor,) = module.ADAPTORS
    assert isinstance(adaptor.can_take(artifact, adaptor.options(), bench.host), Refused)
