"""TVM on exports that its importer fails on as they are: compiled untuned, loaded in a new process."""

from __future__ import annotations

import numpy as np
import pytest

from kedro_hone.adaptors.onnxruntime import adaptor as onnxruntime
from kedro_hone.adaptors.tvm import adaptor as module

pytestmark = [pytest.mark.toolchain, pytest.mark.large]

BERT = {
    "inputs": [{"name": name, "dtype": "int64", "shape": ["batch", 16]} for name in ("ids", "mask")],
    "outputs": [{"name": "logits", "dtype": "float32", "shape": ["batch", 4]}],
}
SHAPES = [{"name": f"batch{size}", "sizes": {"batch": size}} for size in (1, 3)]


@pytest.mark.parametrize("name", ["raw", "dynamo", "domains"])
def test_every_export_of_a_bert_is_compiled(make_bench, environments, berts, tmp_path, name):
    bench, reference = make_bench(module), make_bench(onnxruntime)
    bench.python, reference.scratch = environments.ensure(module.TOOLCHAIN).python, tmp_path / "onnxruntime"
    options = {"trials": 0}
    notes, output = bench.transform("tvm.cpu", berts / name, options=options, described=BERT, shapes=SHAPES)
    assert notes["static_shapes"] == ["batch1", "batch3"]
    draw = np.random.default_rng(1)
    feeds = [{"ids": draw.integers(1, 100, (size, 16)), "mask": np.ones((size, 16), np.int64)} for size in (1, 3)]
    got = bench.run(output, "tvm-so", feeds, described=BERT, static_shapes=SHAPES)
    for have, want in zip(got, reference.run(berts / name, "onnx", feeds), strict=True):
        np.testing.assert_allclose(have["logits"], want["logits"], atol=1e-5)
