"""Two fixtures adopt the conformance suite."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from mnn_tools.adaptor import ADAPTORS
from onnx import helper, numpy_helper

from hone_runtime.contract.adaptor import Adaptor
from hone_runtime.values.artifact import Artifact, TensorSpec
from kedro_hone.testing import AdaptorSuite


class TestCpu(AdaptorSuite):
    """``mnn.cpu`` on a convolution and a layer of 32 by 10 weights."""

    @pytest.fixture
    def adaptor(self) -> Adaptor:
        """The adaptor under test."""
        return ADAPTORS[0]

    @pytest.fixture
    def artifact(self, tmp_path: Path) -> Artifact:
        """A small model that it takes."""
        draw = np.random.default_rng(0)
        weights = {"c": (2, 1, 3, 3), "w": (72, 10)}
        graph = helper.make_graph(
            [
                helper.make_node("Conv", ["x", "c"], ["h"]),
                helper.make_node("Relu", ["h"], ["r"]),
                helper.make_node("Flatten", ["r"], ["f"]),
                helper.make_node("MatMul", ["f", "w"], ["y"]),
            ],
            "digits",
            [helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, ["batch", 1, 8, 8])],
            [helper.make_tensor_value_info("y", onnx.TensorProto.FLOAT, ["batch", 10])],
            [
                numpy_helper.from_array(draw.standard_normal(shape).astype(np.float32), name)
                for name, shape in weights.items()
            ],
        )
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=10)
        onnx.save(model, tmp_path / "model.onnx")
        return Artifact(
            format="onnx",
            digest="sha256:" + "0" * 64,
            inputs=(TensorSpec(name="x", dtype="float32", shape=("batch", 1, 8, 8)),),
            outputs=(TensorSpec(name="y", dtype="float32", shape=("batch", 10)),),
        )
