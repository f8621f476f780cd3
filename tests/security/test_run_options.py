"""Options of a runtime that come with a winner are the attacker's: a runtime does with its options what it likes."""

from __future__ import annotations

import json
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

from hone_runtime.contract.catalogue import list_builtin, read_catalogue
from hone_runtime.contract.job import Job, JobInput
from hone_runtime.contract.toolchain import Limits
from hone_runtime.values.outcome import Failed, FailureClass
from kedro_hone.core.workers.host.run import open_session

MAKE = """
import sys
from pathlib import Path
import numpy as np, onnx, openvino as ov
from onnx import TensorProto, helper
from openvino import opset13 as ops

ir, graph = Path(sys.argv[1], "ir"), Path(sys.argv[1], "onnx")
ir.mkdir(), graph.mkdir()
x = ops.parameter([1, 4], np.float32, name="x")
y = ops.matmul(x, np.ones((4, 4), np.float32), False, False)
ov.save_model(ov.Model([y], [x], "m"), ir / "model.xml", compress_to_fp16=False)
shape = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [1, 4]) for name in "xy"]
made = helper.make_graph([helper.make_node("Relu", ["x"], ["y"])], "m", shape[:1], shape[1:])
model = helper.make_model(made, opset_imports=[helper.make_opsetid("", 20)], ir_version=10)
# What ONNX Runtime takes its options from where ORT_LOAD_CONFIG_FROM_MODEL is set.
model.metadata_props.add(key="ort_config", value='{"session_options": {"enable_profiling": 1}}')
(graph / "model.onnx").write_bytes(model.SerializeToString())
"""

LOAD = """
import json, os, sys
from pathlib import Path
import kedro_hone
from hone_runtime.errors import HoneError
from hone_runtime.values.manifest import Manifest
from hone_runtime.values.artifact import Artifact, TensorSpec

found = {}
for name, (runtime, form, options) in json.loads(sys.argv[2]).items():
    folder = Path(sys.argv[1], form)
    spec = (TensorSpec(name="x", dtype="float32", shape=(1, 4)),)
    artifact = Artifact(
        digest="", format={"ir": "openvino-ir"}.get(form, form), inputs=spec, outputs=spec, runtime=runtime,
        run_options=options,
    )
    (folder / "artifact.json").unlink(missing_ok=True)
    Manifest.measure(folder, artifact.manifest()).write(folder / "artifact.json")
    try:
        kedro_hone.load(folder, trust=["native"])
        found[name] = "loaded"
    except HoneError as error:
        found[name] = f"{error.slug}: {error.why}"
    except Exception as error:
        found[name] = repr(error)
print(json.dumps(found))
"""

WRITES = {
    "openvino writes what it compiled": ("openvino", "ir", {"CACHE_DIR": "CACHE"}),
    "openvino writes what it compiled, by a nested option": (
        "openvino",
        "ir",
        {"DEVICE_PROPERTIES": {"CPU": {"CACHE_DIR": "CACHE"}}},
    ),
    "onnxruntime opens a library": ("onnxruntime", "onnx", {"session.register_custom_ops": "CACHE/evil.so"}),
    "onnxruntime writes a graph": ("onnxruntime", "onnx", {"optimized_model_filepath": "CACHE/model.onnx"}),
    "onnxruntime writes a profile": (
        "onnxruntime",
        "onnx",
        {"enable_profiling": True, "profile_file_prefix": "CACHE/p"},
    ),
    "onnxruntime gets an entry of its configuration": ("onnxruntime", "onnx", {"session_config_entries": {"a": "b"}}),
    "onnxruntime gets a provider": ("onnxruntime", "onnx", {"providers": ["TensorrtExecutionProvider"]}),
    "a value of another type": ("onnxruntime", "onnx", {"graph_optimization": ["all"]}),
    "a value that is not one of those": ("openvino", "ir", {"INFERENCE_PRECISION_HINT": "f64"}),
    "pytorch gets another mode": ("pytorch", "onnx", {"compile": True, "mode": "reduce-overhead"}),
    "pytorch gets a text that is true": ("pytorch", "onnx", {"compile": "true"}),
}
"""The options with which a winner asks for it, by what happens."""

HONEST = {
    "openvino": ("openvino", "ir", {"INFERENCE_PRECISION_HINT": "f32", "PERFORMANCE_HINT": "LATENCY"}),
    "openvino without": ("openvino", "ir", {}),
    "onnxruntime": ("onnxruntime", "onnx", {"graph_optimization": "disabled"}),
}


@pytest.fixture(scope="module")
def models(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("models")
    subprocess.run([sys.executable, "-c", MAKE, str(folder)], check=True)
    return folder


@pytest.mark.attack(
    what="run options of a winner with which its runtime writes files or opens libraries, where it is loaded",
    who="registry",
    stopped_by="each toolchain's list of the run options that it takes, with their values",
)
def test_a_winner_asks_its_runtime_to_write_files_or_open_libraries(models, tmp_path):
    cases = json.dumps({**WRITES, **HONEST}).replace("CACHE/", f"{tmp_path}/").replace('CACHE"', f'{tmp_path}"')
    done = subprocess.run([sys.executable, "-c", LOAD, str(models), cases], capture_output=True, text=True, check=True)
    found = json.loads(done.stdout)
    assert list(tmp_path.iterdir()) == []
    assert {name: found[name] for name in HONEST} == dict.fromkeys(HONEST, "loaded")
    assert [name for name in WRITES if not found[name].startswith("model-unsupported: ")] == []
    assert "CACHE_DIR" in found["openvino writes what it compiled"]


@pytest.mark.attack(
    what="run options of a winner with which its runtime writes files, in a worker",
    who="registry",
    stopped_by="each toolchain's list of the run options that it takes, before a worker is started",
)
def test_a_worker_is_not_started_with_options_that_its_runtime_does_not_take(models, tmp_path):
    cache = tmp_path / "session" / "cache"  # where a worker may write
    toolchain = read_catalogue().find_toolchain("openvino")
    job = Job(
        function="load",
        worker=str(toolchain.worker),
        adaptor="openvino.f32",
        input=JobInput(path=str(models / "ir"), format="openvino-ir", run_options={"CACHE_DIR": str(cache)}),
    )
    opened = open_session(
        job, python=Path(sys.executable), folder=tmp_path / "session", limits=Limits(), toolchain=toolchain
    )
    if not isinstance(opened, Failed):
        with closing(opened):
            opened = opened.load()
    assert not cache.exists()
    assert isinstance(opened, Failed)
    assert opened.failure is FailureClass.LOAD
    assert "CACHE_DIR" in opened.reason


@pytest.mark.parametrize("name", list_builtin())
def test_every_adaptor_asks_only_for_what_its_toolchain_takes(name):
    for adaptor in read_catalogue().adaptors.values():
        if adaptor.toolchain.name == name:
            assert adaptor.toolchain.find_bad_option(adaptor.run_options(adaptor.options())) is None
