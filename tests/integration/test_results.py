"""What a PyTorch model returns, a tuple or a dictionary, from the pull to the learner: the winner returns the same."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from proof import TAGS, prove
from small_project import Project, copy_project

import kedro_hone
from hone_runtime.learner import Learner
from hone_runtime.values.artifact import Artifact
from hone_runtime.values.outcome import OUTCOME
from hone_runtime.worker.imports import load_file
from kedro_hone.adaptors.pytorch.adaptor import TOOLCHAIN
from kedro_hone.adaptors.registries.local.registry import LocalRegistry

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.toolchain
HERE = Path(__file__).parent


models = load_file("result_models", str(HERE / "result_models.py"), parts=False)


@pytest.fixture(scope="module")
def worker():
    return load_file("hone_test_pytorch", str(TOOLCHAIN.worker))


def export(kind: str, folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    batch = torch.export.Dim("batch")
    module = models.Net(kind).eval()
    torch.export.save(
        torch.export.export(module, (torch.ones(2, 4),), dynamic_shapes=({0: batch},)), folder / "model.pt2"
    )


def describe(worker, folder: Path, form: str):
    inputs = [{"name": "x", "dtype": "float32", "shape": ["batch", 4]}]
    job = {
        "input": {"path": str(folder), "format": form, "inputs": inputs, "outputs": []},
        "shapes": [],
        "trust": ["module"],
    }
    return worker.describe(job)


def write_module(kind: str, folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    shutil.copy(HERE / "result_models.py", folder)
    export("tensor", folder)  # only the state is read from it
    text = {"class": "result_models:Net", "file": "result_models.py", "kwargs": {"kind": kind}, "state": "model.pt2"}
    (folder / "module.json").write_text(json.dumps(text))


STRUCTURES = {
    "tensor": (None, ["output_0"]),
    "tuple": ({"kind": "tuple", "items": ["output_0", "output_1"]}, ["output_0", "output_1"]),
    "one": ({"kind": "tuple", "items": ["output_0"]}, ["output_0"]),
    "list": ({"kind": "list", "items": ["output_0", "output_1"]}, ["output_0", "output_1"]),
    "dict": ({"kind": "dict", "items": [["scores", "scores"], ["odds", "odds"]]}, ["scores", "odds"]),
}


@pytest.mark.parametrize("kind", STRUCTURES)
@pytest.mark.parametrize("form", ["pytorch", "pytorch-module"])
def test_the_structure_is_noted(worker, tmp_path, kind, form):
    (export if form == "pytorch" else write_module)(kind, tmp_path)
    described = describe(worker, tmp_path, form)
    structure, names = STRUCTURES[kind]
    assert described.get("structure") == structure
    assert [spec["name"] for spec in described["outputs"]] == names


@pytest.mark.parametrize("kind", ["absent", "output"])
def test_a_dictionary_of_another_class_is_a_dictionary(worker, tmp_path, kind):
    write_module(kind, tmp_path)
    items = [["loss", None], ["scores", "scores"]] if kind == "absent" else [["scores", "scores"], ["odds", "odds"]]
    assert describe(worker, tmp_path, "pytorch-module")["structure"] == {"kind": "dict", "items": items}


@pytest.mark.parametrize(
    ("kind", "says"),
    [("nested", "'states' is tuple, no tensor"), ("text", "item 1 is str"), ("dataclass", "returns Prediction;")],
)
def test_what_is_no_flat_structure_is_refused(worker, tmp_path, kind, says):
    write_module(kind, tmp_path / "module")
    refused = describe(worker, tmp_path / "module", "pytorch-module")["refused"]
    assert says in refused
    assert "one tuple, list or dictionary of tensors" in refused
    if kind == "nested":
        export(kind, tmp_path / "program")
        assert describe(worker, tmp_path / "program", "pytorch")["refused"] == refused


def test_a_program_of_its_authors_class_is_no_corrupt_file(worker, tmp_path):
    code = f"""
import importlib.util, sys, torch
spec = importlib.util.spec_from_file_location("result_models", {str(HERE / "result_models.py")!r})
models = importlib.util.module_from_spec(spec)
sys.modules["result_models"] = models
spec.loader.exec_module(models)
torch.export.register_dataclass(models.Prediction, serialized_type_name="shop.Prediction")
program = torch.export.export(models.Net("dataclass").eval(), (torch.ones(2, 4),))
torch.export.save(program, {str(tmp_path / "model.pt2")!r})
"""
    subprocess.run([sys.executable, "-W", "ignore", "-c", code], check=True)
    assert "returns shop.Prediction, a class of its author's" in describe(worker, tmp_path, "pytorch")["refused"]


def run(project: Project, kind: str, *arguments: str, module: bool) -> dict[str, Artifact]:
    """Run a part of the line on a model and return every candidate's artifact."""
    export("tensor" if module else kind, project.root / "models" / "net")  # of a class, only the state is read from it
    source = {"uri": "models/net"}
    if module:
        shutil.copy(HERE / "result_models.py", project.root / "result_models.py")
        source |= {"module": "result_models.py:Net", "kwargs": {"kind": kind}}
        source |= {"inputs": [{"name": "x", "dtype": "float32", "shape": ["batch", 4]}]}
    off = ("pytorch.compile", "pytorch.compile-exported", "pytorch.aoti", "pytorch.aoti-bf16", "pytorch.pt2e-int8")
    compressors = ("onnxruntime.int8-dynamic", "onnxruntime.int8-static", "onnxruntime.int4-weights")
    nncf = ("openvino.int8-ptq", "openvino.int8-accuracy-control", "openvino.int8-weights", "openvino.int4-weights")
    names = (*off, *compressors, *nncf, "openvino.bf16")
    project.set(
        model=source,
        trust=["module"],
        toolchains=["pytorch", "onnxruntime", "openvino"],
        adaptors={name: {"enabled": False} for name in names},
    )
    project.run(*arguments)
    outcomes = {name: OUTCOME.validate_python(one) for name, one in project.read_outcomes().items()}
    return {
        name: one for name, one in outcomes.items() if isinstance(one, Artifact) and one.runtime and name != "source"
    }


def check(found, wanted) -> None:
    """Assert that two results have one structure and nearly the same numbers."""
    assert type(found) is type(wanted)
    pairs = [(found, wanted)]
    if isinstance(wanted, dict):
        assert list(found) == list(wanted)
        pairs = [(found[key], wanted[key]) for key in wanted]
    elif not isinstance(wanted, torch.Tensor):
        pairs = list(zip(found, wanted, strict=True))
    for one, other in pairs:
        if other is None:
            assert one is None
        else:
            torch.testing.assert_close(one, other.detach(), rtol=1e-3, atol=1e-4)


def publish(artifact: Artifact, files: Path, folder: Path) -> Path:
    """Publish an artifact in a registry of its own."""
    registry = LocalRegistry(folder / "registry")
    done = registry.publish(prove(folder, artifact, files=files), name="net", tags=TAGS, alias="honed")
    return Path(done.uri)


@pytest.mark.filterwarnings("ignore:.torch.jit:DeprecationWarning")
@pytest.mark.filterwarnings("ignore:.isinstance.treespec, LeafSpec:FutureWarning")  # from torch.export itself
@pytest.mark.parametrize(
    ("kind", "module", "part"),
    [
        ("dict", False, ("--pipelines", "pull,build")),
        pytest.param("dict", False, ("--to-nodes", "race.race"), marks=pytest.mark.nightly),  # which times dictionaries
        pytest.param("tuple", False, ("--pipelines", "pull,build"), marks=pytest.mark.nightly),
        pytest.param("absent", True, ("--pipelines", "pull,build"), marks=pytest.mark.nightly),
    ],
)
def test_every_candidate_returns_what_the_source_returns(template, tmp_path, kind, module, part):
    project = copy_project(template, tmp_path)
    candidates = run(project, kind, *part, module=module)
    assert {"onnxruntime", "openvino", "pytorch"} <= {one.runtime for one in candidates.values()}, candidates
    x = torch.from_numpy(np.random.default_rng(0).normal(size=(8, 4)).astype(np.float32))
    wanted = models.Net(kind).eval()(x)
    for artifact in candidates.values():
        files = project.store.locate(artifact)
        check(Learner(artifact, files)(x), wanted)
        arrays = Learner(artifact, files, interface="onnx")(x.numpy())
        assert isinstance(arrays, np.ndarray) == (len(artifact.outputs) == 1)
    winner = next(one for one in candidates.values() if one.runtime == "onnxruntime")
    check(kedro_hone.load(publish(winner, project.store.locate(winner), tmp_path))(x), wanted)
