"""Toolchains for GPUs in their own environments, on a machine without one: each refuses, and none takes the CPU."""

from __future__ import annotations

import pytest
from digits_bench import make_bench as make_source
from digits_bench import read_splits

from hone_runtime.contract.hardware import read_host
from hone_runtime.values.measurement import Status
from hone_runtime.values.outcome import Refused
from kedro_hone.adaptors.onnxruntime_gpu import adaptor as onnxruntime_gpu
from kedro_hone.adaptors.tensorrt import adaptor as tensorrt
from kedro_hone.adaptors.torch_tensorrt import adaptor as torch_tensorrt
from kedro_hone.cli.probes import probe
from kedro_hone.search.steps.step import transform

pytestmark = [
    pytest.mark.toolchain,
    pytest.mark.skipif(read_host().gpu is not None, reason="this machine has a GPU"),
]

ADAPTORS = [*onnxruntime_gpu.ADAPTORS, *tensorrt.ADAPTORS, *torch_tensorrt.ADAPTORS]


@pytest.fixture(scope="module")
def source(digits_models, tmp_path_factory):
    model, folder = digits_models / "onnx" / "model.onnx", tmp_path_factory.mktemp("source")
    return make_source(folder, model, read_splits(digits_models), form="onnx", runtime="onnxruntime")


def test_every_route_is_refused_without_an_environment(source, tmp_path, monkeypatch):
    monkeypatch.setenv("HONE_HOME", str(tmp_path / "home"))
    for adaptor in ADAPTORS:
        parent, context = source.context.source, source.context
        refused = transform(adaptor, adaptor.options(), parent, context, reference=source.reference)
        assert isinstance(refused, Refused)
        assert (refused.slug, refused.reason) == ("host", "needs a GPU, and this machine has none")
    assert not (tmp_path / "home").exists()


@pytest.mark.large
@pytest.mark.parametrize("provider", ["cuda", "tensorrt"])
def test_a_provider_that_falls_back_to_the_cpu_does_not_pass(source, environments, monkeypatch, provider):
    """The same files on the same machine are right on the CPU: only the question for the provider tells."""
    monkeypatch.setenv("HONE_HOME", str(environments.root))
    asked = {"runtime": "onnxruntime_gpu", "device": "cuda:0", "run_options": {"provider": provider}}

    validation = source.validate(source.context.source.model_copy(update=asked), f"onnxruntime_gpu.{provider}")

    assert validation.status is not Status.MEASURED
    assert "ExecutionProvider, and ONNX Runtime fell back to CPUExecutionProvider" in validation.reason


@pytest.mark.large
@pytest.mark.parametrize(
    ("name", "lacks"),
    [
        ("onnxruntime_gpu.cuda", "asked for CUDAExecutionProvider, and ONNX Runtime fell back to CPUExecutionProvider"),
        ("onnxruntime_gpu.tensorrt", "ONNX Runtime fell back to CPUExecutionProvider"),
        ("tensorrt.engine", "needs an NVIDIA GPU, and CUDA finds none here (cudaError"),
    ],
)
def test_an_adaptor_that_is_tried_says_what_is_missing(environments, monkeypatch, tmp_path, name, lacks):
    monkeypatch.setenv("HONE_HOME", str(environments.root))
    adaptor = next(one for one in ADAPTORS if one.name == name)
    assert lacks in probe(adaptor, environments.ensure(adaptor.toolchain), logs=tmp_path)


@pytest.mark.large
@pytest.mark.parametrize("function", ["transform", "describe", "run"])
def test_tensorrt_names_what_cuda_lacks(make_bench, environments, digits_onnx, function):
    bench = make_bench(tensorrt)
    bench.python = environments.ensure(tensorrt.TOOLCHAIN).python
    form = "onnx" if function == "transform" else "tensorrt-engine"
    result, _ = bench.call(function, digits_onnx, form, device="cuda:0", expect_error=True)
    assert result["raised"].startswith("needs an NVIDIA GPU, and CUDA finds none here (cudaError")


@pytest.mark.large
def test_a_build_that_would_run_on_the_cpu_is_refused(make_bench, environments, digits_onnx):
    bench = make_bench(onnxruntime_gpu)
    bench.python = environments.ensure(onnxruntime_gpu.TOOLCHAIN).python
    shapes = [{"name": "batch1", "sizes": {"batch": 1}}]
    notes, output = bench.transform("onnxruntime_gpu.cuda", digits_onnx, shapes=shapes)
    assert "ONNX Runtime fell back to CPUExecutionProvider" in notes["refused"]
    assert not list(output.iterdir())
