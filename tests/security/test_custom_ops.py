"""An ONNX model whose operators are in a library that comes with it is refused; the library is never loaded."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys

import onnx
import pytest
import yaml
from onnx import TensorProto, helper
from small_project import copy_project

LIBRARY = """
#include <fcntl.h>
#include <unistd.h>
#include <stdlib.h>
static void leave(const char *who) {
    int file = open("MARK", O_CREAT | O_WRONLY | O_APPEND, 0666);
    if (file < 0) _exit(77);  /* where writing is forbidden, its process would end in a way that nothing else does */
    close(file);
}
__attribute__((constructor)) static void load(void) { leave("loaded"); }
void *RegisterCustomOps(void *options, const void *api) { leave("registered"); return 0; }
"""


def write_model(folder, library):
    """Write a model of an unknown operator that names its library wherever a reader could look for one."""
    shutil.rmtree(folder)
    folder.mkdir()
    graph = helper.make_graph(
        [helper.make_node("Steal", ["x"], ["y"], domain="evil.ops", library=library, notes="libevil.so")],
        "evil",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["batch", 4])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["batch", 3])],
    )
    opsets = [helper.make_opsetid("", 20), helper.make_opsetid("evil.ops", 1)]
    model = helper.make_model(graph, opset_imports=opsets, ir_version=10)
    names = {"custom_op_library": library, "extensions": "libevil.so"}
    config = {"session_options": {"custom_op_library": library, "session.custom_op_library": library}}
    helper.set_model_props(model, {**names, "ort_config": json.dumps(config)})
    onnx.save(model, folder / "model.onnx")
    flavor = {"data": "model.onnx", "onnx_session_options": config, "custom_op_library": "libevil.so"}
    (folder / "MLmodel").write_text(yaml.safe_dump({"flavors": {"onnx": flavor}}))


@pytest.mark.attack(
    what="an ONNX model whose operators are in a library next to it",
    who="registry",
    stopped_by="operators of other domains are refused by name, and no library that a model names is loaded",
)
def test_a_model_that_brings_its_operators_is_refused_and_they_are_not_loaded(template, tmp_path):
    compiler = shutil.which("cc") or shutil.which("g++")
    if compiler is None:
        pytest.skip("no compiler")
    project, mark = copy_project(template, tmp_path), tmp_path / "mark"
    folder = project.root / "models" / "matrix"
    write_model(folder, str(folder / "libevil.so"))
    (tmp_path / "evil.c").write_text(LIBRARY.replace("MARK", str(mark)))
    subprocess.run(
        [compiler, "-shared", "-fPIC", "-x", "c", tmp_path / "evil.c", "-o", folder / "libevil.so"], check=True
    )
    project.set(toolchains=["onnxruntime", "openvino"])
    project.environment["ORT_LOAD_CONFIG_FROM_MODEL"] = "1"
    done = project.run(code=3)
    said = " ".join(done.output.split())
    assert "it has operators that ONNX Runtime does not have: evil.ops:Steal." in said
    assert "Libraries that come with a model are not loaded" in said
    assert "hone explain model-unsupported" in said
    assert not mark.exists()
    code = "import ctypes, sys; ctypes.CDLL(sys.argv[1])"
    subprocess.run([sys.executable, "-c", code, folder / "libevil.so"], check=True)
    assert mark.exists()  # what it does where it is loaded
