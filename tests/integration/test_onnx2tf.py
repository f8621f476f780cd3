"""LiteRT from ONNX, with the real toolchains: a source that is ONNX, converted, quantized and judged."""

from __future__ import annotations

import pytest
from digits_bench import make_bench, read_splits

from hone_runtime.contract.catalogue import read_catalogue
from hone_runtime.values.artifact import Artifact
from hone_runtime.values.measurement import Status
from hone_runtime.values.outcome import Refused
from kedro_hone.search.steps.step import transform

pytestmark = [pytest.mark.toolchain, pytest.mark.large]

SHAPES = {"batch1": {"batch": 1}, "batch64": {"batch": 64}}


@pytest.fixture(autouse=True)
def home(environments, monkeypatch) -> None:
    monkeypatch.setenv("HONE_HOME", str(environments.root))


@pytest.fixture
def bench(digits_models, tmp_path):
    model, splits = digits_models / "onnx" / "model.onnx", read_splits(digits_models)
    return make_bench(tmp_path, model, splits, form="onnx", runtime="onnxruntime", shapes=SHAPES)


def build(bench, *route):
    """Run a route's adaptors on the source of a bench, one after another."""
    outcome = bench.context.source
    for name in route:
        adaptor = read_catalogue().find_adaptor(name)
        outcome = transform(adaptor, adaptor.options(), outcome, bench.context, reference=bench.reference)
        assert isinstance(outcome, Artifact), outcome.reason
    return outcome


@pytest.mark.parametrize("step", [None, "litert.int8-dynamic", "litert.int8-static"])
def test_a_convolutional_net_keeps_its_accuracy(bench, step):
    artifact = build(bench, "onnx2tf.tflite", *([step] if step else []), "litert.xnnpack")
    assert (artifact.inputs, artifact.outputs) == (bench.context.source.inputs, bench.context.source.outputs)
    assert [shape.name for shape in artifact.static_shapes] == ["batch1", "batch64"]
    validation = bench.validate(artifact)
    assert validation.status is Status.MEASURED, validation.reason
    if step is None:
        assert validation.largest_error < 1e-4


def test_a_model_that_is_quantized_already_is_refused(bench):
    adaptor = read_catalogue().find_adaptor("onnx2tf.tflite")
    for metadata in ({"quantization": "mine"}, {"operators": ["QuantizeLinear"]}):
        model = bench.context.source.model_copy(update={"metadata": metadata})
        refused = transform(adaptor, adaptor.options(), model, bench.context, reference=bench.reference)
        assert isinstance(refused, Refused)
