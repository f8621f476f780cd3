"""A loaded winner after a fork, and as a pickle, with the runtimes that most winners have."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from hone_runtime.learner.manifest import write_manifest
from hone_runtime.values.artifact import Artifact, TensorSpec
from hone_runtime.values.manifest import Manifest

SCRIPT = Path(__file__).with_name("fork_learner.py")
HANG = 600


@pytest.fixture
def network(tmp_path):
    """Eight products of matrices, large enough for several threads."""
    import onnx
    from onnx import TensorProto, helper, numpy_helper

    draw, nodes, weights = np.random.default_rng(0), [], []
    for number in range(8):
        values = (draw.normal(size=(256, 256)) / 16).astype(np.float32)
        weights.append(numpy_helper.from_array(values, f"w{number}"))
        nodes.append(helper.make_node("MatMul", [f"x{number}" if number else "x", f"w{number}"], [f"x{number + 1}"]))
    sides = (helper.make_tensor_value_info(name, TensorProto.FLOAT, ["batch", 256]) for name in ("x", "x8"))
    graph = helper.make_graph(nodes, "net", *([side] for side in sides), weights)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=10), tmp_path / "m.onnx")
    return tmp_path / "m.onnx"


def seal(folder, *, form, runtime):
    artifact = Artifact(
        format=form,
        digest="",
        inputs=(TensorSpec(name="x", dtype="float32", shape=("batch", 256)),),
        outputs=(TensorSpec(name="x8", dtype="float32", shape=("batch", 256)),),
        runtime=runtime,
        metadata={"threads": 2},
    )
    artifact = artifact.model_copy(update={"digest": Manifest.measure(folder, artifact.manifest()).digest})
    write_manifest(folder, artifact)


@pytest.mark.parametrize("runtime", ["onnxruntime", "openvino"])
def test_children_open_it_again_and_end(network, tmp_path, runtime):
    folder = tmp_path / "winner"
    folder.mkdir()
    if runtime == "openvino":
        import openvino

        openvino.save_model(openvino.convert_model(network), folder / "model.xml", compress_to_fp16=False)
        seal(folder, form="openvino-ir", runtime=runtime)
    else:
        network.rename(folder / "model.onnx")
        seal(folder, form="onnx", runtime=runtime)
    done = subprocess.run(
        [sys.executable, "-W", "ignore", SCRIPT, folder], capture_output=True, text=True, timeout=HANG, check=False
    )
    assert done.stdout.splitlines() == ["same True", "ended 0", "ended 0", "parent True True", "pool True"], done.stderr
