"""Models of Keras and TensorFlow, in an environment of their own: opened, described, and converted three ways."""

from __future__ import annotations

import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest

from kedro_hone.adaptors.tensorflow import adaptor as module
from kedro_hone.sources.detection import read_flavor
from kedro_hone.sources.files import write_files

pytestmark = [pytest.mark.toolchain, pytest.mark.large]

SHAPES = [{"name": name, "sizes": {"batch": size, "many_1": 7}} for name, size in (("one", 1), ("batch-5", 5))]
DIGITS = ("digits.keras", "saved", "flavor-keras", "flavor-tensorflow", "flavor-module")
WHOLE = ("ids.keras", "label.keras", "saved-best")
"""Models that take or return whole numbers of 64 bits, for which files of LiteRT have 32."""
TAKEN = (*DIGITS, "named.keras", "listed.keras", *WHOLE)
REFUSED = {
    "lambda.keras": "Lambda layer",
    "author.keras": "a class of its author's",
    "unbuilt.keras": "never built",
    "text.keras": "is text",
}


@pytest.fixture(scope="session")
def python(environments) -> Path:
    environment = environments.ensure(module.TOOLCHAIN)
    assert environment.versions["tensorflow-cpu"].startswith("2.21."), environment
    return Path(environment.python)


@pytest.fixture(scope="session")
def models(keras_models) -> Path:
    return keras_models


@pytest.fixture
def bench(make_bench, python):
    bench = make_bench(module)
    bench.python = python
    return bench


@pytest.fixture
def seal(models, seal_source):
    """Return a function that writes a model as the source artifact that it becomes, and returns folder and format."""
    return lambda name: seal_source(models / name)


def read(models: Path, name: str, described) -> tuple[dict, list[np.ndarray]]:
    """Return the inputs of a model, and what its author was told, in the order of its outputs."""
    with np.load(models / "told.npz") as told:
        feeds = {spec["name"]: told[spec["name"]] for spec in described["inputs"]}
        names = [spec["name"] for spec in described["outputs"]]
        due = {"listed.keras": ["first", "second"], **{key: ["logits"] for key in DIGITS}}.get(name, names)
        return feeds, [told[each] for each in due]


def check(found, described, due) -> None:
    assert [*found] == [spec["name"] for spec in described["outputs"]]
    assert [array.dtype.name for array in found.values()] == [spec["dtype"] for spec in described["outputs"]]
    for array, want in zip(found.values(), due, strict=True):
        np.testing.assert_allclose(array, want, atol=2e-5)


@pytest.mark.parametrize("name", TAKEN)
def test_a_model_runs_as_its_author_calls_it(bench, seal, models, name):
    folder, form = seal(name)
    described = bench.describe(folder, form)
    feeds, due = read(models, name, described)
    (found,) = bench.run(folder, form, [feeds], described=described)
    check({spec["name"]: found[spec["name"]] for spec in described["outputs"]}, described, due)


@pytest.mark.parametrize("name", TAKEN)
def test_the_onnx_model_predicts_what_its_source_does_for_any_rows(bench, seal, models, name):
    folder, form = seal(name)
    described = bench.describe(folder, form)
    notes, output = bench.transform("tensorflow.onnx", folder, form=form, calibration=str(models / "told.npz"))
    assert notes.keys() == {"metadata"}, notes
    session = onnxruntime.InferenceSession(output / "model.onnx", providers=["CPUExecutionProvider"])
    written = bench.describe(output, "onnx")
    assert written == {side: described[side] for side in ("inputs", "outputs")}
    feeds, due = read(models, name, described)
    for rows in (1, 3, None):
        given = {key: array[:rows] for key, array in feeds.items()}
        names = [value.name for value in session.get_outputs()]
        check(dict(zip(names, session.run(None, given), strict=True)), described, [one[:rows] for one in due])


def test_a_dimension_other_than_the_rows_stays_dynamic(bench, seal, models):
    folder, form = seal("named.keras")
    _, output = bench.transform("tensorflow.onnx", folder, form=form, calibration=str(models / "told.npz"))
    session = onnxruntime.InferenceSession(output / "model.onnx", providers=["CPUExecutionProvider"])
    draw = np.random.default_rng(1)
    for length in (1, 4, 9):
        feeds = {"one": draw.random((2, 4), np.float32), "many": draw.random((2, length, 3), np.float32)}
        (source,) = bench.run(folder, form, [feeds])
        for name, array in zip([value.name for value in session.get_outputs()], session.run(None, feeds), strict=True):
            np.testing.assert_allclose(array, source[name], atol=1e-5)


@pytest.mark.parametrize("name", ["digits.keras", "saved", "named.keras", "listed.keras", *WHOLE])
@pytest.mark.parametrize("form", ["tflite", "tensorflow-xla"])
def test_what_is_made_for_each_shape_predicts_what_its_source_does(*, bench, runtime, seal, models, name, form):
    adaptor = "tensorflow.tflite" if form == "tflite" else "tensorflow.xla"
    folder, source = seal(name)
    described = bench.describe(folder, source)
    notes, output = bench.transform(adaptor, folder, form=source, shapes=SHAPES, calibration=str(models / "told.npz"))
    assert notes["static_shapes"] == ["one", "batch-5"], notes
    told = {"described": described, "static_shapes": SHAPES}
    written, _ = bench.call("describe", output, form, **told)
    assert written == {side: described[side] for side in ("inputs", "outputs")}
    feeds, due = read(models, name, described)
    used = runtime if form == "tflite" else bench
    rows = [{key: array[:size] for key, array in feeds.items()} for size in (1, 5)]
    for found, size in zip(used.run(output, form, rows, **told), (1, 5), strict=True):
        ordered = {spec["name"]: found[spec["name"]] for spec in described["outputs"]}
        check(ordered, described, [array[:size] for array in due])


def test_the_opset_is_an_option(bench, seal, models):
    folder, form = seal("digits.keras")
    _, output = bench.transform(
        "tensorflow.onnx", folder, form=form, options={"opset": 15}, calibration=str(models / "told.npz")
    )
    assert [entry.version for entry in onnx.load(output / "model.onnx").opset_import if not entry.domain] == [15]


def test_a_graph_that_onnx_does_not_take_is_a_failure_that_says_so(bench, seal):
    folder, form = seal("bits.keras")
    notes, _ = bench.transform("tensorflow.onnx", folder, form=form, described=bench.describe(folder, form))
    assert notes["failed"]["class"] == "convert", notes
    assert "tf2onnx wrote a graph that ONNX does not take: " in notes["failed"]["reason"]
    assert "Bitcast" in notes["failed"]["reason"]


def test_xla_has_compiled_what_it_runs(bench, seal, python):
    """The functions that were saved say so: without it they would be TensorFlow's own, and as fast as the source."""
    folder, form = seal("digits.keras")
    _, output = bench.transform("tensorflow.xla", folder, form=form, shapes=SHAPES[:1])
    script = (
        "import sys; from tensorflow.core.protobuf.saved_model_pb2 import SavedModel as S;"
        "m = S.FromString(open(sys.argv[1], 'rb').read());"
        "print(sum('_XlaMustCompile' in f.attr and f.attr['_XlaMustCompile'].b"
        " for f in m.meta_graphs[0].graph_def.library.function))"
    )
    command = [str(python), "-c", script, str(output / "saved_model.pb")]
    assert int(subprocess.run(command, capture_output=True, text=True, check=True).stdout) >= 1


@pytest.mark.parametrize("name", REFUSED)
def test_what_cannot_be_opened_is_refused_with_the_reason(bench, seal, name):
    folder, form = seal(name)
    described, _ = bench.call("describe", folder, form)
    assert REFUSED[name] in described["refused"], described
    notes, _ = bench.transform("tensorflow.onnx", folder, form=form, described={"inputs": [], "outputs": []})
    assert REFUSED[name] in notes["refused"], notes


def test_the_recipe_names_the_dimensions(bench, seal):
    folder, form = seal("named.keras")
    given = [
        {"name": "one", "dtype": "float32", "shape": ["rows", 4]},
        {"name": "many", "dtype": "float32", "shape": ["rows", "length", 3]},
    ]
    described, _ = bench.call("describe", folder, form, described={"inputs": given, "outputs": []})
    assert described["inputs"] == given
    wrong = [{**given[0], "shape": ["rows", 5]}, given[1]]
    described, _ = bench.call("describe", folder, form, described={"inputs": wrong, "outputs": []})
    assert described["inputs"][0]["shape"] == ["batch", 4]  # what the file says counts


def test_what_the_learner_is_told(bench, seal):
    kinds = {"digits.keras": "single", "named.keras": "dict", "listed.keras": "list"}
    for name, kind in kinds.items():
        described = bench.describe(*seal(name))
        assert described["keras"] == {"inputs": kind, "outputs": kind}
    assert "keras" not in bench.describe(*seal("saved"))


WRONG = """
import numpy as np

from . import comparison

_open = comparison._open_onnx


def _open_wrong(job):
    run = _open(job)
    return lambda feeds: {name: np.where(np.abs(array) > 0, array * 1.1, array) for name, array in run(feeds).items()}


comparison._open_onnx = _open_wrong
"""


def test_a_graph_that_is_not_its_source_is_refused_with_row_and_numbers(bench, seal, models, tmp_path):
    folder, form = seal("digits.keras")
    described = bench.describe(folder, form)
    copy = tmp_path / "toolchains"
    for name in ("tensorflow", "litert"):
        shutil.copytree(
            module.TOOLCHAIN.folder.parent / name, copy / name, ignore=shutil.ignore_patterns("__pycache__")
        )
    path = copy / "tensorflow" / "worker" / "hone_tensorflow" / "conversion.py"
    path.write_text(f"{path.read_text()}\n{WRONG}")
    bench.toolchain = replace(bench.toolchain, folder=copy / "tensorflow")
    notes, _ = bench.transform(
        "tensorflow.onnx", folder, form=form, described=described, calibration=str(models / "told.npz")
    )
    assert "from the source's: row " in notes["refused"], notes
    assert "by the converted model" in notes["refused"]


ODD = """
import os, sys
os.environ.update(TF_CPP_MIN_LOG_LEVEL="2", CUDA_VISIBLE_DEVICES="-1")
sys.path.append(sys.argv[1])
import tensorflow as tf
from pathlib import Path

class Policy(tf.Module):
    def __init__(self):
        self.weights = tf.Variable(tf.random.stateless_normal((4, 3), (0, 1)))

    @tf.function(input_signature=[tf.TensorSpec((None, 4), tf.float32, name="seen")])
    def __call__(self, seen):
        scores = seen @ self.weights
        return {"logits": tf.where(seen[:, :3] > 0, scores, tf.constant(float("-inf")))}

class Retrieval(tf.Module):
    def __init__(self):
        self.words = tf.Variable(tf.random.stateless_normal((4, 20), (0, 1)))

    @tf.function(input_signature=[tf.TensorSpec((None, 4), tf.float32, name="seen")])
    def __call__(self, seen):
        best = tf.math.top_k(seen @ self.words, 3)
        return {"values": best.values, "places": best.indices}

for name, model in (("policy", Policy()), ("retrieval", Retrieval())):
    tf.saved_model.save(model, str(Path(sys.argv[2], name)))
"""
"""Models that are masked by -inf, and that choose the best of scores, which are all equal for zeros."""


@pytest.fixture(scope="session")
def odd_models(python, tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("odd")
    (packages,) = python.parents[1].glob("lib/python3*/site-packages")
    subprocess.run([sys.executable, "-W", "ignore", "-c", ODD, str(packages), str(folder)], check=True)
    np.savez(folder / "rows.npz", seen=np.random.default_rng(0).normal(size=(40, 4)).astype(np.float32))
    return folder


@pytest.fixture
def convert(bench, odd_models, tmp_path):
    """Return a function that converts one of them, by a worker in which every call of ONNX is changed."""

    def convert(name: str, change: str, adaptor: str = "tensorflow.onnx"):
        if change:
            copy = tmp_path / "toolchains"
            for each in ("tensorflow", "litert"):
                hidden = shutil.ignore_patterns("__pycache__")
                shutil.copytree(module.TOOLCHAIN.folder.parent / each, copy / each, ignore=hidden)
            path = copy / "tensorflow" / "worker" / "hone_tensorflow" / "conversion.py"
            path.write_text(path.read_text() + WRONG.replace("np.where(np.abs(array) > 0, array * 1.1, array)", change))
            bench.toolchain = replace(bench.toolchain, folder=copy / "tensorflow")
        flavor = read_flavor(odd_models / name, trust=frozenset())
        folder = tmp_path / "sealed" / name
        write_files(flavor, odd_models / name, folder)
        described, rows = bench.describe(folder, flavor.format), str(odd_models / "rows.npz")
        notes, _ = bench.transform(
            adaptor, folder, form=flavor.format, described=described, calibration=rows, shapes=SHAPES
        )
        return notes

    return convert


@pytest.mark.parametrize("adaptor", ["tensorflow.onnx", "tensorflow.tflite"])
@pytest.mark.parametrize("name", ["policy", "retrieval"])
def test_equal_infinities_and_the_order_of_equal_scores_are_no_difference(convert, name, adaptor):
    notes = convert(name, "", adaptor)
    assert not notes.keys() & {"refused", "failed"}, notes


BACKWARDS = "np.where((feeds['seen'] == 0).all(), 19 - array, array) if name == 'places' else array"


@pytest.mark.parametrize(
    ("name", "change", "clue"),
    [
        ("policy", "np.where(np.isfinite(array), array + 0.2, array)", "logits differ from the source's: row "),
        ("policy", "np.where(np.isfinite(array), -np.inf, array)", "-inf by the converted model"),
        ("retrieval", "array + 1 if name == 'places' else array", "places differ from the source's: row "),
        ("retrieval", BACKWARDS, ""),
    ],
)
def test_what_differs_beside_them_is(convert, name, change, clue):
    said = convert(name, change).get("refused", "")
    assert clue in said if clue else said == ""
