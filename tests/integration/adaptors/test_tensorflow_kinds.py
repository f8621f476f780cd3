"""Each way to build a model of Keras, each kind of SavedModel, and a file of LiteRT: run, converted, or refused."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import onnxruntime
import pytest

from kedro_hone.adaptors.litert import adaptor as litert
from kedro_hone.adaptors.tensorflow import adaptor as module
from kedro_hone.sources.detection import read_flavor
from kedro_hone.sources.files import write_files

pytestmark = [pytest.mark.toolchain, pytest.mark.large]

SEQUENTIAL = (
    "sequential-called.keras",
    "sequential-input.keras",
    "sequential-named.keras",
    "sequential-built.keras",
    "sequential-of-a-model.keras",
    "sequential-augmented.keras",
)
RECURRENT = (
    "lstm-masked.keras",
    "gru-stacked.keras",
    "gru-plain.keras",
    "rnn.keras",
    "lstm-states.keras",
    "lstm-sequential.keras",
    "conv-lstm.keras",
    "time-distributed.keras",
)
OTHERS = (
    "inputs-list.keras",
    "inputs-dict.keras",
    "attention.keras",
    "swish.keras",
    "rescaled.keras",
    "normalized.keras",
    "encoded.keras",
    "discretized.keras",
    "looked-up.keras",
    "mixed-float16.keras",
    "mixed-bfloat16.keras",
)
SAVED = ("while", "cond", "fold", "optimizer", "exported", "first")
TAKEN = (*SEQUENTIAL, *RECURRENT, *OTHERS, *SAVED)
COMPILED = (
    "sequential-called.keras",
    "swish.keras",
    *RECURRENT,
    "encoded.keras",
    "looked-up.keras",
    *OTHERS[-2:],
    *SAVED,
)
"""Those with a loop, a branch, a table or other types; what is plain is compiled alike."""
WITHOUT_ONNX = {
    "discretized.keras": "Bucketize",
    "looked-up.keras": "table lookup",
    "mixed-bfloat16.keras": "bfloat16",
}
WITHOUT_XLA = {"looked-up.keras": "it looks values up in a table (LookupTableFindV2)"}
WITHOUT_TFLITE = {
    **WITHOUT_XLA,
    "encoded.keras": "DenseBincount",
    "mixed-float16.keras": "LiteRT has not, for such types and sizes: BiasAdd, Conv2D",
    "mixed-bfloat16.keras": "LiteRT has not, for such types and sizes: BiasAdd, Conv2D",
}
REFUSED = {
    "sequential-plain.keras": ("never built", None),
    "subclassed.keras": ("model.export(folder)", None),
    "lstm-stateful.keras": ("assigns variables at inference", "source-stateful"),
    "counter": ("assigns variables at inference (calls)", "source-stateful"),
    "signatures": ("several signatures: branched, root", "recipe-invalid"),
    "read-text": ("is text", None),
    "ragged": ("ragged", None),
}
SHAPES = [{"name": name, "sizes": {"batch": size, "tokens_1": 9}} for name, size in (("one", 1), ("batch-5", 5))]


@pytest.fixture
def bench(make_bench, environments):
    bench = make_bench(module)
    bench.python = Path(environments.ensure(module.TOOLCHAIN).python)
    return bench


@pytest.fixture
def runtime(make_bench, environments, tmp_path):
    bench = make_bench(litert)
    bench.scratch, bench.python = tmp_path / "litert", environments.ensure(litert.TOOLCHAIN).python
    return bench


@pytest.fixture
def seal(keras_kinds, tmp_path):
    """Return a function that writes a model as the source artifact that it becomes, and returns folder and format."""

    def seal(name: str) -> tuple[Path, str]:
        pulled = keras_kinds / name
        if pulled.is_file():
            pulled = tmp_path / "pulled" / pulled.stem
            pulled.mkdir(parents=True)
            shutil.copy(keras_kinds / name, pulled)
        flavor = read_flavor(pulled, trust=frozenset())
        folder = tmp_path / "sealed" / name
        write_files(flavor, pulled, folder)
        return folder, flavor.format

    return seal


@pytest.fixture
def rows(keras_kinds, tmp_path):
    """Return a function to the inputs of a model by the names that it has for them, what is due, and a file of them."""

    def rows(name: str, described) -> tuple[dict, list[np.ndarray], str]:
        with np.load(keras_kinds / f"{Path(name).stem}.npz") as told:
            given = [told[key] for key in told.files if not key.startswith("due_")]
            due = [told[key] for key in sorted(told.files) if key.startswith("due_")]
        names = [spec["name"] for spec in described["inputs"]]
        feeds = dict(zip(names, given, strict=True))
        np.savez(tmp_path / "rows.npz", **feeds)
        return feeds, due, str(tmp_path / "rows.npz")

    return rows


def check(found, described, due, *, rows=slice(None), loose: bool = False) -> None:
    for spec, want in zip(described["outputs"], due, strict=True):
        np.testing.assert_allclose(found[spec["name"]], want[rows], atol=3e-2 if loose else 3e-5, rtol=1e-4)


@pytest.mark.parametrize("name", TAKEN)
def test_a_model_of_each_kind_runs_as_its_author_calls_it(bench, seal, rows, name):
    folder, form = seal(name)
    described = bench.describe(folder, form)
    assert described["inputs"][0]["shape"][0] == "batch", described
    feeds, due, _ = rows(name, described)
    found = bench.run(folder, form, [feeds, {key: array[:5] for key, array in feeds.items()}], described=described)
    check(found[0], described, due)
    check(found[1], described, due, rows=slice(5), loose="mixed" in name)


@pytest.mark.parametrize("name", TAKEN)
def test_a_model_of_each_kind_becomes_onnx_or_says_what_has_no_place_in_it(bench, seal, rows, name):
    folder, form = seal(name)
    described = bench.describe(folder, form)
    feeds, due, file = rows(name, described)
    notes, output = bench.transform("tensorflow.onnx", folder, form=form, calibration=file)
    if name in WITHOUT_ONNX:
        assert WITHOUT_ONNX[name] in str(notes), notes
        return
    assert notes.keys() == {"metadata"}, notes
    session = onnxruntime.InferenceSession(output / "model.onnx", providers=["CPUExecutionProvider"])
    names = [value.name for value in session.get_outputs()]
    for size in (1, 5, None):
        found = session.run(names, {key: array[:size] for key, array in feeds.items()})
        check(dict(zip(names, found, strict=True)), described, due, rows=slice(size), loose="mixed" in name)


@pytest.mark.parametrize("name", COMPILED)
@pytest.mark.parametrize("form", ["tflite", "tensorflow-xla"])
def test_a_model_of_each_kind_is_compiled_for_shapes(*, bench, runtime, seal, rows, name, form):
    folder, source = seal(name)
    described = bench.describe(folder, source)
    feeds, due, file = rows(name, described)
    adaptor, without = ("tensorflow.tflite", WITHOUT_TFLITE) if form == "tflite" else ("tensorflow.xla", WITHOUT_XLA)
    notes, output = bench.transform(adaptor, folder, form=source, shapes=SHAPES, calibration=file)
    if name in without:
        assert without[name] in str(notes), notes
        return
    assert notes["static_shapes"] == ["one", "batch-5"], notes
    used = runtime if form == "tflite" else bench
    given = [{key: array[:size] for key, array in feeds.items()} for size in (1, 5)]
    told = {"described": described, "static_shapes": SHAPES}
    for found, size in zip(used.run(output, form, given, **told), (1, 5), strict=True):
        check(found, described, due, rows=slice(size), loose="mixed" in name)


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_not_taken_is_refused_by_what_it_is(bench, seal, name):
    described, _ = bench.call("describe", *seal(name))
    said, slug = REFUSED[name]
    assert said in described["refused"], described
    assert described.get("slug") == slug


def test_the_recipe_chooses_a_signature(bench, seal, keras_kinds):
    folder, form = seal("signatures")
    with np.load(keras_kinds / "while.npz") as told:
        feeds, due = {"x": told["x"]}, told["due_0"]
    described, _ = bench.call("describe", folder, form, metadata={"signature": "root"})
    (found,) = bench.run(folder, form, [feeds], described=described, metadata={"signature": "root"})
    np.testing.assert_allclose(found["root"], due, atol=1e-5)
    described, _ = bench.call("describe", folder, form, metadata={"signature": "other"})
    assert "no signature 'other'; its signatures are: branched, root" in described["refused"]


def test_what_draws_numbers_is_left_to_the_check_of_the_source(bench, seal):
    """The states of its generators are no variables that it remembers its calls by: they begin at the job's seed."""
    folder, form = seal("augmented")
    described = bench.describe(folder, form)
    assert "refused" not in described
    feeds = {"x": np.random.default_rng(0).normal(size=(6, 4, 4, 1)).astype(np.float32)}
    drawn = [bench.call("run", folder, form, feeds=[feeds], described=described, expect_error=True, seed=0)[0]]
    assert drawn == [{"raised": ""}]  # the bench calls it twice, and asserts that both give the same


def test_a_file_of_litert_runs_and_becomes_onnx(bench, runtime, seal, rows):
    folder, form = seal("rescaled.tflite")
    described = runtime.describe(folder, form)
    feeds, due, file = rows("rescaled.tflite", described)
    name = described["outputs"][0]["name"]
    given = [{key: array[:size] for key, array in feeds.items()} for size in (1, 5)]
    for size, found in zip((1, 5), runtime.run(folder, form, given), strict=True):
        np.testing.assert_allclose(found[name], due[0][:size], atol=2e-4)
    notes, output = bench.transform("tensorflow.onnx", folder, form=form, described=described, calibration=file)
    assert notes.keys() == {"metadata"}, notes
    session = onnxruntime.InferenceSession(output / "model.onnx", providers=["CPUExecutionProvider"])
    np.testing.assert_allclose(session.run(None, feeds)[0], due[0], atol=2e-4)
