"""ONNX Runtime's provider for CUDA, on a machine with a GPU; without one see ``test_gpu_toolchains.py``."""

from __future__ import annotations

import numpy as np
import pytest

from hone_runtime.contract.hardware import read_host
from kedro_hone.adaptors.onnxruntime import adaptor as onnxruntime
from kedro_hone.adaptors.onnxruntime_gpu import adaptor as module

pytestmark = [
    pytest.mark.toolchain,
    pytest.mark.large,
    pytest.mark.skipif(read_host().gpu is None, reason="this machine has no GPU"),
]

SHAPES = [{"name": "batch1", "sizes": {"batch": 1}}]


@pytest.fixture
def bench(make_bench, environments):
    bench = make_bench(module)
    bench.python = environments.ensure(module.TOOLCHAIN).python
    return bench


def make_feeds(*sizes: int) -> list[dict[str, np.ndarray]]:
    rows = np.random.default_rng(0)
    return [{"image": rows.random((size, 1, 8, 8), np.float32)} for size in sizes]


def run(bench, model, feeds, *, tf32=False, graphs=True):
    options = {"provider": "cuda", "tf32": tf32, "graphs": graphs}
    found = bench.run(model, "onnx", feeds, device="cuda:0", run_options=options, metadata={"graphs": graphs})
    return [outputs["logits"] for outputs in found]


def test_its_metadata_says_where_operators_ran(bench, digits_onnx):
    notes, output = bench.transform("onnxruntime_gpu.cuda", digits_onnx, shapes=SHAPES)
    assert notes["metadata"]["placement"].keys() == {"CUDAExecutionProvider"}
    assert notes["metadata"]["graphs"]
    assert (output / "model.onnx").read_bytes() == (digits_onnx / "model.onnx").read_bytes()


@pytest.mark.parametrize("graphs", [True, False])
def test_its_outputs_are_those_of_the_cpu(bench, make_shared_bench, digits_onnx, graphs):
    feeds = make_feeds(1, 5, 5, 1)
    expected = make_shared_bench(onnxruntime).run(digits_onnx, "onnx", feeds)
    for mine, outputs in zip(run(bench, digits_onnx, feeds, graphs=graphs), expected, strict=True):
        np.testing.assert_allclose(mine, outputs["logits"], rtol=1e-4, atol=1e-4)


def test_more_shapes_than_graphs_are_kept_of(bench, digits_onnx):
    feeds = make_feeds(*range(1, 20), 1, 19)
    replayed, called = (run(bench, digits_onnx, feeds, graphs=graphs) for graphs in (True, False))
    for mine, other in zip(replayed, called, strict=True):
        np.testing.assert_allclose(mine, other, rtol=1e-5, atol=1e-5)


def test_operators_that_it_has_no_kernel_for_are_named(bench, make_shared_bench, digits_onnx):
    _, quantized = make_shared_bench(onnxruntime).transform("onnxruntime.int8-dynamic", digits_onnx, shapes=SHAPES)
    notes, _ = bench.transform("onnxruntime_gpu.cuda", quantized, shapes=SHAPES)
    assert "these operators ran on the CPU: 2 DynamicQuantizeLinear, 2 MatMulInteger" in notes["refused"]
