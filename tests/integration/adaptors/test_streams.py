"""Streams of OpenVINO, ONNX Runtime and LiteRT: calls at once return what each returns alone, on a real net."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pytest

from kedro_hone.adaptors.litert import adaptor as litert
from kedro_hone.adaptors.onnxruntime import adaptor as onnxruntime
from kedro_hone.adaptors.openvino import adaptor as openvino

pytestmark = pytest.mark.toolchain

CALLERS = 5
RECORDED = Path(__file__).parents[2] / "toolchains" / "litert" / "digits"
SPECS = {
    "inputs": [{"name": "image", "dtype": "float32", "shape": ["batch", 1, 8, 8]}],
    "outputs": [{"name": "logits", "dtype": "float32", "shape": ["batch", 10]}],
}
SHAPES = [{"name": f"batch{size}", "sizes": {"batch": size}} for size in (1, 64)]
COMPILED = {"metadata": {"compiled_shapes": [shape["sizes"] for shape in SHAPES]}}


def check(bench, path, form, samples, *, options, plain, **job):
    """Assert that a model with some run options returns what it returns without, also to several callers at once."""
    feeds = [{"image": samples.x[:1]}, {"image": samples.x[:64]}]
    expected = bench.run(path, form, feeds, run_options=plain, **job)
    for threads in (1, 4):
        found = bench.run(path, form, feeds, run_options=options, threads=threads, callers=CALLERS, **job)
        for want, have in zip(expected, found, strict=True):
            np.testing.assert_allclose(have["logits"], want["logits"], atol=1e-4)


def list_options(module, name):
    """Return the run options of the variants for several clients, and of the plain candidate."""
    (adaptor,) = (one for one in module.ADAPTORS if one.name == name)
    (option, values), *_ = adaptor.throughput(CALLERS).items()
    return [adaptor.run_options(adaptor.options(**{option: value})) for value in values], adaptor.run_options(
        adaptor.options()
    )


@pytest.mark.parametrize("noted", [{}, COMPILED])
def test_openvino(make_bench, digits_onnx, digits_samples, noted):
    bench = make_bench(openvino)
    _, path = bench.transform("openvino.ir", digits_onnx, form="onnx", described=SPECS)
    several, plain = list_options(openvino, "openvino.f32")
    assert plain == {"INFERENCE_PRECISION_HINT": "f32", "PERFORMANCE_HINT": "LATENCY"}
    assert [{**one} for one in several] == [
        {"INFERENCE_PRECISION_HINT": "f32", "PERFORMANCE_HINT": "THROUGHPUT"},
        {"INFERENCE_PRECISION_HINT": "f32", "PERFORMANCE_HINT": "THROUGHPUT", "NUM_STREAMS": CALLERS},
    ]
    for options in several:
        assert openvino.TOOLCHAIN.find_bad_option(options) is None
        check(bench, path, "openvino-ir", digits_samples, options=options, plain=plain, **noted)


@pytest.mark.parametrize("noted", [{}, COMPILED])
def test_onnxruntime(make_bench, digits_onnx, digits_samples, noted):
    bench = make_bench(onnxruntime)
    several, plain = list_options(onnxruntime, "onnxruntime.session")
    assert (several, plain) == (
        [{"graph_optimization": "disabled", "streams": CALLERS}],
        {"graph_optimization": "disabled"},
    )
    for streams in (2, CALLERS):  # with four threads two each, and one each in a session for all
        options = {**several[0], "streams": streams}
        assert onnxruntime.TOOLCHAIN.find_bad_option(options) is None
        check(bench, digits_onnx, "onnx", digits_samples, options=options, plain=plain, **noted)


def test_litert(make_bench, environments, digits_samples, tmp_path):
    bench = make_bench(litert)
    bench.python = environments.ensure(litert.TOOLCHAIN).python
    path = shutil.copytree(RECORDED, tmp_path / "recorded")
    several, plain = list_options(litert, "litert.xnnpack")
    assert (several, plain) == ([{"streams": CALLERS}], {})
    job = {"described": SPECS, "static_shapes": SHAPES}
    check(bench, path, "tflite", digits_samples, options=several[0], plain=plain, **job)


@pytest.mark.parametrize("module", [openvino, onnxruntime, litert])
@pytest.mark.parametrize("streams", [0, -1, 257, "4", 2.0, True, "model.so"])
def test_no_other_number_of_streams_is_opened(module, streams):
    option = "NUM_STREAMS" if module is openvino else "streams"

    assert module.TOOLCHAIN.find_bad_option({option: streams})
