"""Composites of real runtimes: from the race's result to the learner, and what of them is refused."""

from __future__ import annotations

import shutil
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from digits_bench import make_bench, read_splits

import kedro_hone
from hone_runtime.contract.catalogue import read_catalogue
from hone_runtime.contract.hardware import read_host
from hone_runtime.errors import HoneError
from hone_runtime.learner.golden import make_golden
from hone_runtime.learner.manifest import write_manifest
from hone_runtime.values.artifact import TensorSpec
from hone_runtime.values.composite import RUNS, read_parts
from hone_runtime.values.measurement import RaceResult, Standing, Status, Validation
from hone_runtime.values.outcome import Candidate
from hone_runtime.worker.imports import load_file
from kedro_hone.adaptors.composite.adaptor import TOOLCHAIN
from kedro_hone.nodes.compose import compose
from kedro_hone.nodes.gate import _Scorer

pytestmark = pytest.mark.toolchain

F32 = {"INFERENCE_PRECISION_HINT": "f32", "PERFORMANCE_HINT": "LATENCY"}
SPECS = {
    "inputs": (TensorSpec(name="image", dtype="float32", shape=("batch", 1, 8, 8)),),
    "outputs": (TensorSpec(name="logits", dtype="float32", shape=("batch", 10)),),
}


@pytest.fixture(scope="module")
def bench(digits_models, tmp_path_factory):
    model = digits_models / "onnx" / "model.onnx"
    folder = tmp_path_factory.mktemp("composite")
    shapes = {"batch1": {"batch": 1}, "batch64": {"batch": 64}}
    splits = read_splits(digits_models)
    return make_bench(folder, model, splits, form="onnx", runtime="onnxruntime", shapes=shapes)


def convert(bench, folder, *, add=0.0):
    """Return the source as an IR for OpenVINO, with something added to the first class."""
    import openvino as ov
    from openvino import opset13 as ops

    model = ov.convert_model(bench.context.store.locate(bench.context.source) / "model.onnx")
    if add:
        output = model.outputs[0].get_node().input_value(0)
        wrong = ops.add(output, ops.constant(np.eye(1, 10, dtype=np.float32) * add))
        wrong.output(0).get_tensor().set_names({"logits"})
        output.get_tensor().set_names(set())
        model = ov.Model([wrong], model.get_parameters())
    folder.mkdir()
    ov.save_model(model, folder / "model.xml", compress_to_fp16=False)
    noted = {"compiled_shapes": [{"batch": 1}, {"batch": 64}]}
    form = {"format": "openvino-ir", "runtime": "openvino", "run_options": F32, "metadata": noted}
    return bench.context.store.seal(folder, **form, **SPECS)


def make(bench, other, *, shape="batch64"):
    """Return the composite of the source, the best of the race, and another one, which is faster at a shape."""
    ratios = {"onnx": {"batch1": 5.0, "batch64": 4.0}, "ir": {"batch1": 4.0, "batch64": 4.0, shape: 9.0}}
    artifacts = {"onnx": bench.context.source, "ir": other}
    made = [Candidate(id=name, route=(name,), outcome=artifact) for name, artifact in artifacts.items()]
    result = RaceResult(
        validations=tuple(Validation(candidate=one, status=Status.MEASURED) for one in made),
        standings=tuple(Standing(id=one.id, status=Status.MEASURED, rounds=5, ratios=ratios[one.id]) for one in made),
        source_latency=(),
        rounds=5,
        seconds=1.0,
        budget_ended=False,
        timings="k",
    )
    return compose(context=bench.context, result=result)


def publish(bench, artifact, folder):
    """Write a composite as a publication has it."""
    shutil.copytree(bench.context.store.locate(artifact), folder)
    write_manifest(folder, artifact)
    return folder


def test_each_shape_is_computed_by_its_part(bench, tmp_path):
    made = make(bench, convert(bench, tmp_path / "ir"))
    assert [(part.runtime, part.shapes) for part in read_parts(made)] == [
        ("onnxruntime", {"batch1": {"batch": 1}}),
        ("openvino", {"batch64": {"batch": 64}}),
    ]
    assert bench.validate(made).status is Status.MEASURED
    learner = kedro_hone.load(publish(bench, made, tmp_path / "published"))
    source = kedro_hone.load(publish(bench, bench.context.source, tmp_path / "source"))
    for rows in (1, 64, 7):
        feeds = {"image": np.random.default_rng(rows).random((rows, 1, 8, 8), dtype=np.float32)}
        np.testing.assert_allclose(learner.run(feeds)["logits"], source.run(feeds)["logits"], rtol=1e-4, atol=1e-4)


def test_a_part_is_compiled_for_the_shapes_that_it_serves(bench, tmp_path):
    learner = kedro_hone.load(publish(bench, make(bench, convert(bench, tmp_path / "ir")), tmp_path / "published"))
    _, other = learner._session.parts
    key = ((64, 1, 8, 8),)
    assert learner._session.find(key) is other.find(key) is not other.find(())
    assert other.find(((1, 1, 8, 8),)) is other.find(()), "the first part serves it"


def test_a_part_that_is_wrong_at_its_shape_is_found(bench, tmp_path):
    made = make(bench, convert(bench, tmp_path / "ir", add=100.0))
    validation = bench.validate(made)
    assert validation.status is Status.DROPPED
    assert "batch64" in validation.reason
    learner = kedro_hone.load(publish(bench, made, tmp_path / "published"))
    feeds = {"image": np.random.default_rng(0).random((64, 1, 8, 8), dtype=np.float32)}
    assert (learner.run(feeds)["logits"].argmax(1) == 0).all()  # it is the part for 64 rows that is wrong
    assert not (learner.run({"image": feeds["image"][:63]})["logits"].argmax(1) == 0).all()


@pytest.mark.parametrize("shape", ["batch1", "batch64"])
def test_each_part_is_judged_on_all_rows(bench, tmp_path, shape):
    """The gate's rows are predicted in calls of 64, and no other part would be called."""
    other = convert(bench, tmp_path / "ir", add=100.0)
    outcomes = {"composite": make(bench, other, shape=shape), "onnx": bench.context.source, "ir": other}
    (tmp_path / "gate").mkdir()
    scorer = _Scorer(bench.context, tmp_path / "gate", outcomes, level=0.95)
    quality = scorer.score("composite")
    assert quality.id == "composite"
    assert quality.drop.low > 0.5
    assert scorer.score("onnx").drop.high < 0.05
    assert set(scorer.outputs) == {"composite", "onnx"}


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"run_options": {"CACHE_DIR": "x"}}, "write files and open libraries"),
        ({"runtime": "pytorch", "format": "torchscript"}, "a part of the format 'torchscript' for 'pytorch'"),
        ({"runtime": "../../../tmp", "format": "onnx"}, "a part of the format 'onnx' for '../../../tmp'"),
        ({"shapes": {"none": {"batch": 0}}}, "what is not a shape of the inputs: {'batch': 0}"),
        ({"shapes": {"twice": {"batch": 64}}}, "serve a shape of the inputs twice"),
        ({"shapes": {str(batch): {"batch": batch} for batch in range(1, 99)}}, "serve more than 64 shapes"),
        ({"shapes": {str(batch): {"batch": batch} for batch in range(100, 164)}}, "serve more than 64 shapes"),
        ({"metadata": {"compiled_shapes": [{"batch": 1}] * 9}}, "not a list of at most 8 shapes"),
        ({"metadata": {"compiled_shapes": {"batch": 1}}}, "not a list of at most 8 shapes"),
    ],
    ids=str,
)
def test_a_composite_of_a_stranger_opens_nothing_else(bench, tmp_path, change, said):
    made = make(bench, convert(bench, tmp_path / "ir"))
    parts = [{**made.metadata["parts"][0], **change}, *made.metadata["parts"][1:]]
    folder = tmp_path / "changed"
    shutil.copytree(bench.context.store.locate(made), folder)
    attributes = made.model_copy(update={"metadata": {**made.metadata, "parts": parts}})
    sealed = bench.context.store.seal(folder, **dict(attributes.manifest()))
    with pytest.raises((HoneError, ValueError)) as caught:
        kedro_hone.load(publish(bench, sealed, tmp_path / "published"))
    assert said in " ".join(map(str, (caught.value, getattr(caught.value, "why", ""))))


def test_golden_rows_are_computed_by_each_part(bench, tmp_path):
    """The rows are few, and of the shape of one part; the other one is wrong on this machine."""
    made = make(bench, convert(bench, tmp_path / "ir", add=100.0))
    folder = publish(bench, made, tmp_path / "registry" / "artifact")
    source = kedro_hone.load(publish(bench, bench.context.source, tmp_path / "source"))
    feeds = {"image": np.random.default_rng(0).random((1, 1, 8, 8), dtype=np.float32)}
    golden = make_golden(
        feeds, source.run(feeds), rows=1, largest_error=0.0, source=bench.context.source, host=read_host()
    )
    (folder.parent / "evidence").mkdir()
    (folder.parent / "evidence" / "golden.json").write_text(golden.model_dump_json())
    with pytest.raises(HoneError) as caught:
        kedro_hone.load(folder.parent, on_mismatch="refuse")
    assert caught.value.slug == "winner-differs"
    assert "output logits differs by" in caught.value.why


def test_threads_load_and_call_it_at_once(bench, tmp_path):
    folder = publish(bench, make(bench, convert(bench, tmp_path / "ir")), tmp_path / "published")
    images = {rows: np.random.default_rng(rows).random((rows, 1, 8, 8), dtype=np.float32) for rows in (1, 64)}
    with ThreadPoolExecutor(8) as pool:
        learners = [*pool.map(lambda _: kedro_hone.load(folder), range(8))]
        due = {rows: learners[0].run({"image": image})["logits"] for rows, image in images.items()}
        calls = [pool.submit(learners[0].run, {"image": images[rows]}) for rows in (1, 64) * 200]
        found = [call.result()["logits"] for call in calls]
    for array in found:
        np.testing.assert_allclose(array, due[len(array)], rtol=1e-4, atol=1e-4)


def test_threads_of_a_part_wait_briefly_for_the_next_call(bench, tmp_path):
    """By default those of ONNX Runtime take a core from OpenVINO for tens of milliseconds after a call."""
    learner = kedro_hone.load(publish(bench, make(bench, convert(bench, tmp_path / "ir")), tmp_path / "published"))
    options = learner._session.parts[0]._session.get_session_options()
    assert options.get_session_config_entry("session.intra_op.spin_duration_us") == "500"


def test_its_worker_knows_the_runtimes_and_their_variables():
    catalogue = read_catalogue()
    worker = load_file("composite_worker", str(TOOLCHAIN.worker))
    assert worker.RUNS == RUNS
    variables = [catalogue.find_toolchain(name).environment for name in TOOLCHAIN.uses]
    assert dict(TOOLCHAIN.environment) == {key: value for one in variables for key, value in one.items()}
