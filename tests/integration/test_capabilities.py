"""What the ``capabilities.yml`` of each toolchain claims is what its library does, asked in its own interpreter."""

from __future__ import annotations

import json
import subprocess

import pytest

from hone_runtime.contract.catalogue import read_catalogue
from hone_runtime.contract.hardware import read_host
from kedro_hone.core.environments.environment import Environment
from kedro_hone.core.workers.host.run import WORKER_MAIN
from kedro_hone.recipe.capabilities import read_file

pytestmark = pytest.mark.toolchain

MODELS = """
import json, os, re, sys, tempfile, warnings
warnings.simplefilter("ignore")
from onnx import TensorProto, helper, save

def make(path, opset, ir, kind=TensorProto.FLOAT):
    values = [helper.make_tensor_value_info(name, kind, [1, 8]) for name in "xy"]
    graph = helper.make_graph([helper.make_node("Abs", ["x"], ["y"])], "g", values[:1], values[1:])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)])
    model.ir_version = ir
    save(model, path)
    return path

def opens(open_, *arguments):
    with tempfile.TemporaryDirectory() as folder:
        try:
            open_(make(os.path.join(folder, "model.onnx"), *arguments))
        except Exception:
            return False
    return True
"""
ONNXRUNTIME = """
import onnxruntime
onnxruntime.set_default_logger_severity(4)
open_ = lambda path: onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
(_, highest), ir = claims["takes"]["opsets"], claims["takes"]["ir"]
said = {
    "highest opset": opens(open_, highest, 10), "no higher opset": not opens(open_, highest + 1, 10),
    "newest file": opens(open_, 21, ir), "no newer file": not opens(open_, 21, ir + 1),
    "fp16": opens(open_, 21, 10, TensorProto.FLOAT16) == ("fp16" in claims["precisions"]),
    "bf16": opens(open_, 21, 10, TensorProto.BFLOAT16) == ("bf16" in claims["precisions"]),
}
"""
OPENVINO = """
import openvino
can = {one.lower() for one in openvino.Core().get_property("CPU", "OPTIMIZATION_CAPABILITIES")}
said = {one: one in can for one in ("fp32", "int8")}
said["bf16"] = ("bf16" in can) == bf16
said["any opset"] = opens(openvino.convert_model, 1, 3) and opens(openvino.convert_model, 60, 13)
"""
DEEPSPARSE = """
import deepsparse
open_ = lambda path: deepsparse.Engine(path, 1)
lowest, highest = min(claims["opsets"]), max(claims["opsets"])
said = {
    "lowest opset": opens(open_, lowest, 8), "highest opset": opens(open_, highest, 8),
    "no higher opset": not opens(open_, highest + 1, 8),
    "the lowest is what is taken": claims["takes"]["opsets"][0] == lowest,
}
"""
IREE = """
from onnx import defs
sys.path.insert(0, hone)
from hone_runtime.worker.packages import import_worker
worker = import_worker(path)
def refuses(name, domain=""):
    graph = helper.make_graph([helper.make_node(name, ["x"], ["y"], domain=domain)], "g", [], [])
    return worker._find_refusal(helper.make_model(graph)) is not None
names = {one.name for one in defs.get_all_schemas()}
said = {
    "operators": {name for name in names if refuses(name)} == {*claims["takes"]["without"]},
    "all others": not refuses("Gelu"),  # those of other domains are refused by what normalizes models
}
"""
PYTORCH = """
from torch.onnx import _constants
highest = max(claims["adaptors"]["pytorch.onnx-traced"]["opsets"])
said = {"traced": highest == _constants.ONNX_TORCHSCRIPT_EXPORTER_MAX_OPSET}
"""
LITERT = """
from ai_edge_quantizer import qtyping
known = {one.value for one in qtyping.TFLOperationName}
said = {name: name in known for name in claims["adaptors"]["litert.int8-dynamic"]["operators"]}
"""
SKLEARN = """
import skl2onnx
said = {"opset": max(claims["adaptors"]["sklearn.onnx"]["opset"]) <= skl2onnx.__max_supported_opset__}
"""
NEURAL_COMPRESSOR = """
from neural_compressor.strategy import STRATEGIES
said = {name: name in STRATEGIES for name in claims["adaptors"]["neural_compressor.int8-static"]["strategies"]}
"""

LARGE = pytest.mark.large
QUESTIONS = [
    ("onnxruntime", MODELS + ONNXRUNTIME),
    ("openvino", MODELS + OPENVINO),
    ("deepsparse", MODELS + DEEPSPARSE),
    ("iree", MODELS + IREE),
    ("pytorch", PYTORCH),
    ("litert", LITERT),
    pytest.param("sklearn", SKLEARN, marks=LARGE),
    pytest.param("neural_compressor", NEURAL_COMPRESSOR, marks=LARGE),
]


@pytest.mark.parametrize(("name", "question"), QUESTIONS)
def test_the_library_does_what_the_file_claims(environments, name, question):
    toolchain = read_catalogue().find_toolchain(name)
    environment = environments.ensure(toolchain)
    assert isinstance(environment, Environment), environment
    (claims,) = read_file(toolchain.folder / "capabilities.yml")["versions"]
    given = {
        "claims": claims,
        "path": str(toolchain.worker),
        "hone": str(WORKER_MAIN.parents[2]),
        "bf16": read_host().can("BF16"),
    }
    text = f"import json\nglobals().update(json.loads({json.dumps(given)!r}))\n{question}\nprint(json.dumps(said))"
    variables = {**toolchain.environment, "PATH": "/usr/bin:/bin"}
    command = [environment.python, "-c", text]
    done = subprocess.run(command, env=variables, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    said = json.loads(done.stdout.splitlines()[-1])
    assert said
    assert [one for one, holds in said.items() if not holds] == []
