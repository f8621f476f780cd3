"""Model Optimizer's graphs, made in its own environment, and judged on the CPU in ONNX Runtime."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from digits_bench import make_bench as make_source
from digits_bench import read_splits

from hone_runtime.values.artifact import Artifact
from hone_runtime.values.measurement import Status
from kedro_hone.adaptors.modelopt import adaptor as module
from kedro_hone.adaptors.onnxruntime import adaptor as onnxruntime
from kedro_hone.search.steps.step import transform

pytestmark = [pytest.mark.toolchain, pytest.mark.large]

INT8, FP16 = module.ADAPTORS


@pytest.fixture(autouse=True)
def home(environments, monkeypatch) -> None:
    monkeypatch.setenv("HONE_HOME", str(environments.root))


@pytest.mark.parametrize("adaptor", [INT8, FP16], ids=lambda adaptor: adaptor.name)
def test_its_graphs_keep_their_accuracy_on_the_cpu(digits_models, tmp_path, adaptor):
    model = digits_models / "onnx" / "model.onnx"
    bench = make_source(tmp_path, model, read_splits(digits_models), form="onnx", runtime="onnxruntime")
    common = {"context": bench.context, "reference": bench.reference, "routes": ()}

    lowered = transform(adaptor, adaptor.options(), bench.context.source, **common)
    assert isinstance(lowered, Artifact), lowered.reason
    session = onnxruntime.ADAPTORS[0]
    opened = transform(session, session.options(), lowered, **common)

    assert isinstance(opened, Artifact), opened.reason
    validation = bench.validate(opened, adaptor.name, session.name)
    assert validation.status is Status.MEASURED, validation.reason
    assert validation.largest_error > 0


@pytest.fixture(scope="module")
def bench(make_shared_bench, environments):
    bench = make_shared_bench(module)
    bench.python = environments.ensure(module.TOOLCHAIN).python
    return bench


@pytest.mark.parametrize("rest", ["fp32", "fp16"])
def test_inputs_and_outputs_keep_their_types(bench, digits_onnx, digits_samples, rest):
    calibration = str(digits_samples.calibration)
    notes, output = bench.transform(INT8.name, digits_onnx, calibration=calibration, options={"rest": rest})

    graph = onnx.load(output / "model.onnx").graph
    kinds = {value.type.tensor_type.elem_type for value in (*graph.input, *graph.output)}
    assert kinds == {onnx.TensorProto.FLOAT}
    assert notes["metadata"]["quantized_tensors"] > 0
    half = any(tensor.data_type == onnx.TensorProto.FLOAT16 for tensor in graph.initializer)
    assert half == (rest == "fp16")


def test_a_graph_that_is_quantized_is_left_alone(bench, digits_onnx, digits_samples):
    calibration = str(digits_samples.calibration)
    _, output = bench.transform(INT8.name, digits_onnx, calibration=calibration)
    for adaptor in (INT8, FP16):
        notes, _ = bench.transform(adaptor.name, output, calibration=calibration)
        assert notes == {"nothing_to_do": "the graph is quantized already"}


def test_what_is_large_on_the_calibration_data_stays_in_fp32(bench, digits_onnx, digits_samples):
    calibration = str(digits_samples.calibration)
    most, least = (
        bench.transform(FP16.name, digits_onnx, calibration=calibration, options={"largest": largest})[0]
        for largest in (512.0, 1e-6)
    )
    assert most["metadata"]["half_tensors"] > 0
    assert least == {"nothing_to_do": "no operator of this graph could be cast to fp16"}


def test_a_fixed_batch_is_calibrated_in_whole_calls(bench, digits_onnx, digits_samples, tmp_path):
    model = onnx.load(digits_onnx / "model.onnx")
    for value in (*model.graph.input, *model.graph.output):
        value.type.tensor_type.shape.dim[0].dim_value = 6
    (tmp_path / "fixed").mkdir()
    onnx.save(model, tmp_path / "fixed" / "model.onnx")
    for adaptor in (INT8, FP16):
        _, output = bench.transform(adaptor.name, tmp_path / "fixed", calibration=str(digits_samples.calibration))
        (shape,) = {
            tuple(d.dim_value for d in v.type.tensor_type.shape.dim)
            for v in onnx.load(output / "model.onnx").graph.input
        }
        assert shape == (6, 1, 8, 8)


def test_the_calibration_rows_are_read_whole(bench, digits_onnx, tmp_path):
    """Ranges come from the rows: ten times as large rows give scales ten times as large."""
    scales = []
    for factor in (1, 10):
        path = tmp_path / f"{factor}.npz"
        np.savez(path, image=np.full((8, 1, 8, 8), factor, np.float32))
        _, output = bench.transform(INT8.name, digits_onnx, calibration=str(path), options={"calibration": "max"})
        graph = onnx.load(output / "model.onnx").graph
        first = next(node for node in graph.node if node.op_type == "QuantizeLinear" and node.input[0] == "image")
        scale = next(tensor for tensor in graph.initializer if tensor.name == first.input[1])
        scales.append(float(onnx.numpy_helper.to_array(scale)))
    assert scales[1] == pytest.approx(10 * scales[0], rel=1e-3)
