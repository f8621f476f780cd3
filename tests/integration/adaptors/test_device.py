"""A session that is asked for a device that its toolchain cannot give refuses, and does not take the CPU silently."""

from __future__ import annotations

import pytest

from kedro_hone.adaptors.onnxruntime import adaptor as onnxruntime
from kedro_hone.adaptors.openvino import adaptor as openvino
from kedro_hone.adaptors.pytorch import adaptor as pytorch

pytestmark = pytest.mark.toolchain

MODELS = {
    "onnxruntime": (onnxruntime, "onnx", "onnx"),
    "openvino": (openvino, "onnx", "openvino-ir"),
    "pytorch": (pytorch, "exported", "pytorch"),
}


@pytest.mark.parametrize("name", MODELS)
def test_another_device_than_the_cpu_is_refused(make_bench, digits_models, name):
    module, folder, form = MODELS[name]
    bench = make_bench(module)
    result, _ = bench.call("run", digits_models / folder, form, device="cuda:0", expect_error=True)
    assert "for the device cuda:0" in result["raised"]
