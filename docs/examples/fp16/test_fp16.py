"""Two fixtures adopt the conformance suite."""

from __future__ import annotations

from pathlib import Path

import adaptor as fp16
import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper

from hone_runtime.contract.adaptor import Adaptor
from hone_runtime.values.artifact import Artifact, TensorSpec
from kedro_hone.testing import AdaptorSuite


class TestWeights(AdaptorSuite):
    """``fp16.weights`` on a layer of 16 by 32 weights."""

    @pytest.fixture
    def adaptor(self) -> Adaptor:
        """The adaptor under test."""
        return fp16.WEIGHTS

    @pytest.fixture
    def artifact(self, tmp_path: Path) -> Artifact:
        """A small model that it takes."""
        weight = np.random.default_rng(0).standard_normal((16, 32)).astype(np.float32)
        graph = helper.make_graph(
            [helper.make_node("MatMul", ["x", "w"], ["y"])],
            "layer",
            [helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, ["batch", 16])],
            [helper.make_tensor_value_info("y", onnx.TensorProto.FLOAT, ["batch", 32])],
            [numpy_helper.from_array(weight, "w")],
        )
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=10)
        onnx.save(model, tmp_path / "model.onnx")
        return Artifact(
            format="onnx",
            digest="sha256:" + "0" * 64,
            inputs=(TensorSpec(name="x", dtype="float32", shape=("batch", 16)),),
            outputs=(TensorSpec(name="y", dtype="float32", shape=("batch", 32)),),
        )
