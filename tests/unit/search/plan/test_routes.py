from __future__ import annotations

import pytest

from hone_runtime.values.artifact import Artifact
from kedro_hone.search.plan.routes import must_agree, only_converts


@pytest.mark.parametrize(
    ("route", "converts"),
    [
        ("pytorch.onnx onnxruntime.session", True),
        ("litert_torch.tflite litert.xnnpack", True),
        ("pytorch.onnx deepsparse.engine", True),
        ("openvino.ir openvino.f32", True),
        ("openvino.ir openvino.bf16", False),
        ("onnxruntime.int8-static deepsparse.engine", False),
        ("litert_torch.tflite litert.int8-dynamic litert.xnnpack", False),
        ("sparseml.prune pytorch.onnx deepsparse.engine", False),
        ("torch_tensorrt.engine", False),
    ],
)
def test_a_runtime_of_two_precisions_computes_in_that_of_the_graph(route, converts):
    assert only_converts(route.split()) is converts


@pytest.mark.parametrize(
    ("operators", "agrees"),
    [
        (["Conv", "Round"], True),
        (["DequantizeLinear", "MatMul"], True),
        (["QuantizeLinear", "DequantizeLinear"], False),
        (["ConvInteger", "Add"], False),
        (["DynamicQuantizeLSTM"], False),
        (["QLinearConv"], False),
    ],
)
def test_of_a_source_that_quantizes_nobody_asks_for_the_same_rows(operators, agrees):
    source = Artifact(format="onnx", digest="", inputs=(), outputs=(), metadata={"operators": operators})

    assert must_agree(["openvino.ir", "openvino.f32"], source) is agrees
    assert not must_agree(["openvino.ir", "openvino.bf16"], source)
