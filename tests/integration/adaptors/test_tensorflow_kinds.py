"""Each way to build a model of Keras, each kind of SavedModel, and a file of LiteRT: run, converted, or refused."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import numpy as np
import onnxruntime
import pytest
from conftest import make_once

from kedro_hone.adaptors.tensorflow import adaptor as module

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
    "looked-up.keras": "lookup tables",
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


@pytest.fixture(scope="session")
def converted(keras_kinds, shared, environments) -> Path:
    """A folder with what ``convert_kinds.py`` wrote of all of them."""
    script, python = Path(__file__).with_name("convert_kinds.py"), environments.ensure(module.TOOLCHAIN).python
    asked = [f"{name}:onnx{',tflite,xla' if name in COMPILED else ''}" for name in TAKEN]

    def make(folder: Path) -> None:
        command = [python, "-W", "ignore", str(script), str(keras_kinds), str(folder), *asked, *REFUSED]
        subprocess.run(
            command, check=True, stdout=subprocess.DEVNULL, env={**os.environ, **module.TOOLCHAIN.environment}
        )

    return make_once(shared / "keras-kinds-converted", make)


@pytest.fixture
def bench(make_bench, environments):
    bench = make_bench(module)
    bench.python = Path(environments.ensure(module.TOOLCHAIN).python)
    return bench


@pytest.fixture
def seal(keras_kinds, seal_source):
    """Return a function that writes a model as the source artifact that it becomes, and returns folder and format."""
    return lambda name: seal_source(keras_kinds / name)


@pytest.fixture
def read(keras_kinds, converted):
    """Return a function to what the worker said of a model, and what its author was told for the rows."""

    def read(name: str) -> tuple[dict, list[np.ndarray]]:
        said = json.loads((converted / f"{name}.json").read_text())
        with np.load(keras_kinds / f"{Path(name).stem}.npz") as told:
            return said, [told[key] for key in sorted(told.files) if key.startswith("due_")]

    return read


def check(found, said, due, *, loose: bool = False) -> None:
    for spec, want in zip(said["describe"]["outputs"], due, strict=True):
        got = found[spec["name"]]
        assert len(got)
        np.testing.assert_allclose(got, want[: len(got)], atol=3e-2 if loose else 3e-5, rtol=1e-4)


@pytest.mark.parametrize("name", TAKEN)
def test_a_model_of_each_kind_runs_as_its_author_calls_it(converted, read, name):
    said, due = read(name)
    assert said["describe"]["inputs"][0]["shape"][0] == "batch", said
    for path in (converted / name / "run").iterdir():
        check(np.load(path), said, due, loose="mixed" in name)


@pytest.mark.parametrize("name", TAKEN)
def test_a_model_of_each_kind_becomes_onnx_or_says_what_has_no_place_in_it(converted, read, name):
    said, due = read(name)
    if name in WITHOUT_ONNX:
        assert WITHOUT_ONNX[name] in str(said["onnx"]), said
        return
    assert said["onnx"].keys() == {"metadata"}, said
    path = converted / name / "onnx" / "model.onnx"
    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    names = [value.name for value in session.get_outputs()]
    feeds = dict(np.load(converted / name / "rows.npz"))
    for size in (1, 5, None):
        found = session.run(names, {key: array[:size] for key, array in feeds.items()})
        check(dict(zip(names, found, strict=True)), said, due, loose="mixed" in name)


@pytest.mark.parametrize("name", COMPILED)
def test_a_model_of_each_kind_is_compiled_by_xla(converted, read, name):
    said, due = read(name)
    if name in WITHOUT_XLA:
        assert WITHOUT_XLA[name] in str(said["xla"]), said
        return
    assert said["xla"]["static_shapes"] == ["one", "batch-5"], said
    for size in (1, 5):
        found = np.load(converted / name / "compiled" / f"{size}.npz")
        assert {len(found[output]) for output in found.files} == {size}
        check(found, said, due, loose="mixed" in name)


@pytest.mark.parametrize("name", COMPILED)
def test_a_model_of_each_kind_becomes_a_file_of_litert_that_the_worker_has_compared(read, name):
    said, _ = read(name)
    if name in WITHOUT_TFLITE:
        assert WITHOUT_TFLITE[name] in str(said["tflite"]), said
        return
    assert said["tflite"]["static_shapes"] == ["one", "batch-5"], said


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_not_taken_is_refused_by_what_it_is(converted, name):
    described = json.loads((converted / f"{name}.json").read_text())["describe"]
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


def test_a_file_of_litert_runs_and_becomes_onnx(*, bench, runtime, seal, keras_kinds, tmp_path):
    folder, form = seal("rescaled.tflite")
    described = runtime.describe(folder, form)
    with np.load(keras_kinds / "rescaled.npz") as told:
        feeds, due = {described["inputs"][0]["name"]: told["pixels"]}, told["due_0"]
    np.savez(tmp_path / "rows.npz", **feeds)
    name = described["outputs"][0]["name"]
    given = [{key: array[:size] for key, array in feeds.items()} for size in (1, 5)]
    for size, found in zip((1, 5), runtime.run(folder, form, given), strict=True):
        np.testing.assert_allclose(found[name], due[:size], atol=2e-4)
    notes, output = bench.transform(
        "tensorflow.onnx", folder, form=form, described=described, calibration=str(tmp_path / "rows.npz")
    )
    assert notes.keys() == {"metadata"}, notes
    session = onnxruntime.InferenceSession(output / "model.onnx", providers=["CPUExecutionProvider"])
    np.testing.assert_allclose(session.run(None, feeds)[0], due, atol=2e-4)
