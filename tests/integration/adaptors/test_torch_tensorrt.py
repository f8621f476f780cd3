"""Torch-TensorRT's adaptor without a GPU: its refusals, and its worker on the CPU with a stand-in for the library.

**Torch-TensorRT itself is unverified**: it cannot be imported without TensorRT's libraries, nor run without a GPU. The
stand-in, which these tests write, has the signatures of the wheel of 2.13.0, and builds no engine.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from hone_runtime.contract.catalogue import read_catalogue
from hone_runtime.contract.hardware import read_host
from kedro_hone.adaptors.pytorch import adaptor as pytorch
from kedro_hone.adaptors.torch_tensorrt import adaptor as module
from kedro_hone.recipe.environments import find_environment
from kedro_hone.recipe.schema import read_recipe

pytestmark = [
    pytest.mark.toolchain,
    pytest.mark.nightly,
    pytest.mark.skipif(read_host().gpu is not None, reason="this machine has a GPU"),
]

SHAPES = [{"name": f"batch{size}", "sizes": {"batch": size}} for size in (2, 64)]
LIBRARY = """
import torch

from . import dynamo

__version__ = "2.13.0"


def save(module, file_path="", *, extra_files=None, output_format="exported_program", inputs=None, arg_inputs=None,
         kwarg_inputs=None, retrace=True, use_legacy_exporter=None, pickle_protocol=2, dynamic_shapes=None):
    assert output_format == "exported_program"
    torch.export.save(torch.export.export(module, args=tuple(arg_inputs), strict=False), file_path)
"""
DYNAMO = """
import json

import torch

from . import runtime


def compile(exported_program, inputs=None, *, arg_inputs=None, kwarg_inputs=None, device=None, disable_tf32=False,
            sparse_weights=False, workspace_size=0, require_full_compilation=False, min_block_size=5,
            optimization_level=None, enable_autocast=False, autocast_low_precision_type=None):
    given = dict(locals())
    shapes = [list(tensor.shape) for tensor in given.pop("arg_inputs")]
    assert isinstance(given.pop("exported_program"), torch.export.ExportedProgram)
    with open(CALLS, "a") as stream:
        stream.write(json.dumps({**given, "shapes": shapes}, default=str) + "\\n")
    if require_full_compilation:
        raise AssertionError("not all of it is taken\\nand more")
    return runtime.Partitioned(exported_program.module(), ENGINES)
"""
RUNTIME = """
import torch


class TorchTensorRTModule(torch.nn.Module):
    def __init__(self, program):
        super().__init__()
        self.program = program

    def forward(self, *tensors):
        return self.program(*tensors)


class Partitioned(torch.nn.Module):
    def __init__(self, program, engines):
        super().__init__()
        self._run_on_acc_0 = TorchTensorRTModule(program) if engines else program

    def forward(self, *tensors):
        return self._run_on_acc_0(*tensors)
"""
DRIVER = """
import json, sys
from pathlib import Path

import numpy as np

stand_in, path, used, folder, device = sys.argv[1:]
sys.path.insert(0, stand_in)
from hone_runtime.worker.packages import import_worker
worker = import_worker(path, uses=[used])
library, session = (sys.modules[f"hone_torch_tensorrt.{name}"] for name in ("library", "session"))
library.DEVICE = session.DEVICE = device  # in place of the GPU
library.require_gpu = session.require_gpu = lambda: None
job = json.loads(Path(folder, "job.json").read_text())
notes = worker.transform(job)
told = {"notes": notes}
if "outputs" in notes:
    job["input"].update(path=job["output"], format="torch-tensorrt", static_shapes=job["shapes"])
    told["described"] = worker.describe(job)
    opened = worker.load(job)
    feeds = dict(np.load(Path(folder, "feeds.npz")))
    np.savez(Path(folder, "outputs.npz"), **opened.run(feeds))
    try:
        opened.run({name: rows[:3] for name, rows in feeds.items()})
    except ValueError as error:
        told["other"] = str(error)
print(json.dumps(told))
"""


@pytest.fixture(scope="module")
def source(make_shared_bench, digits_exported) -> dict[str, object]:
    """The digits net as an exported program, described."""
    return make_shared_bench(pytorch).describe(digits_exported, "pytorch")


@pytest.fixture
def drive(tmp_path, digits_exported, digits_samples, source):
    """Run the worker from a program to its outputs, on the CPU and with a stand-in; return what it told, and calls."""

    def call(*, engines: int = 1, installed: bool = True, **options):
        if installed:
            write(tmp_path / "torch_tensorrt" / "__init__.py", LIBRARY)
            calls = f"CALLS, ENGINES = {str(tmp_path / 'calls')!r}, {engines}\n"
            write(tmp_path / "torch_tensorrt" / "dynamo" / "__init__.py", calls + DYNAMO)
            write(tmp_path / "torch_tensorrt" / "dynamo" / "runtime.py", RUNTIME)
        (tmp_path / "output").mkdir()
        job = {
            "adaptor": "torch_tensorrt.engine",
            "input": {"path": str(digits_exported), "format": "pytorch", "device": "cpu", **source},
            "output": str(tmp_path / "output"),
            "options": module.EngineOptions(**options).model_dump(mode="json"),
            "shapes": SHAPES,
            "threads": 1,
            "trust": [],
        }
        (tmp_path / "job.json").write_text(json.dumps(job))
        np.savez(tmp_path / "feeds.npz", image=digits_samples.x[:64])
        places = (tmp_path, module.TOOLCHAIN.worker, pytorch.TOOLCHAIN.worker.parent, tmp_path)
        command = [sys.executable, "-W", "ignore", "-c", DRIVER, *map(str, places), "cpu"]
        done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=tmp_path)
        assert done.returncode == 0 or not installed, done.stderr
        logged = tmp_path / "calls"
        calls = [json.loads(line) for line in logged.read_text().splitlines()] if logged.exists() else []
        return json.loads(done.stdout) if done.returncode == 0 else done.stderr, calls

    return call


def write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def test_each_shape_has_a_program_that_computes_as_the_source(drive, tmp_path, make_bench, digits_exported, source):
    told, calls = drive(level=5, tf32=False, workspace_mb=2, autocast="bf16", sparse=True, least=3)

    assert told["notes"]["static_shapes"] == ["batch2", "batch64"]
    assert told["notes"]["metadata"] == {"torch_tensorrt": "2.13.0", "engines": {"batch2": 1, "batch64": 1}}
    assert told["described"] == {side: source[side] for side in ("inputs", "outputs")}
    assert "and fed ((3, 1, 8, 8),)" in told["other"]
    assert [call.pop("shapes") for call in calls] == [[[2, 1, 8, 8]], [[64, 1, 8, 8]]]
    assert calls[0] == {
        "inputs": None,
        "kwarg_inputs": None,
        "device": "cpu",
        "optimization_level": 5,
        "disable_tf32": True,
        "sparse_weights": True,
        "workspace_size": 2 << 20,
        "min_block_size": 3,
        "require_full_compilation": False,
        "enable_autocast": True,
        "autocast_low_precision_type": "torch.bfloat16",
    }
    with np.load(tmp_path / "feeds.npz") as feeds, np.load(tmp_path / "outputs.npz") as outputs:
        expected = make_bench(pytorch).run(digits_exported, "pytorch", [dict(feeds)])
        assert outputs.keys() == expected[0].keys() == {source["outputs"][0]["name"]}
        for name in outputs:
            np.testing.assert_allclose(outputs[name], expected[0][name], rtol=1e-4, atol=1e-5)


def test_a_program_without_an_engine_is_nothing_to_race(drive):
    told, calls = drive(engines=0)

    assert told == {"notes": {"nothing_to_do": "TensorRT takes no 5 operators in a row of it"}}
    assert len(calls) == 1
    assert (calls[0]["enable_autocast"], calls[0]["autocast_low_precision_type"]) == (False, None)


def test_what_it_does_not_compile_is_a_failure_that_says_why(drive):
    told, _ = drive(whole=True)

    reason = "Torch-TensorRT cannot compile it for batch2: not all of it is taken"
    assert told["notes"] == {"failed": {"class": "compile", "reason": reason}}


def test_without_the_library_it_is_named(drive):
    told, _ = drive(installed=False)

    assert "ValueError: Torch-TensorRT cannot be imported: No module named 'torch_tensorrt'" in told


@pytest.mark.parametrize("function", ["transform", "describe", "run"])
def test_a_machine_without_a_gpu_is_refused_in_the_worker(make_bench, digits_exported, tmp_path, function):
    folder, form = digits_exported, "pytorch"
    specs = {"inputs": [{"name": "x", "dtype": "float32", "shape": ["batch"]}], "outputs": []}
    if function != "transform":
        folder, form = tmp_path, "torch-tensorrt"
        (tmp_path / "index.json").write_text(json.dumps(specs))
    job = {"described": specs, "device": "cuda:0", "static_shapes": [SHAPES[0]], "expect_error": True}
    told, _ = make_bench(module).call(function, folder, form, **job)

    assert told["raised"].startswith("needs an NVIDIA GPU, and PyTorch ")


def test_engines_are_of_a_gpu_and_of_no_other_device(make_bench, tmp_path):
    told, _ = make_bench(module).call("run", tmp_path, "torch-tensorrt", expect_error=True)

    assert told["raised"] == "the model is for the device cpu, and its engines compute on cuda:0"


def test_no_environment_is_built_and_the_line_of_the_recipe_is_told(tmp_path, monkeypatch):
    monkeypatch.setenv("HONE_HOME", str(tmp_path / "home"))
    failed = find_environment(read_recipe({"model": {"uri": "m"}}), module.TOOLCHAIN)

    assert "here torch-tensorrt is not installed, and package indexes lack what torch_tensorrt needs" in failed.reason
    assert "`hone: {environments: {torch_tensorrt: {python: /path/to/python}}}`" in failed.reason
    assert not (tmp_path / "home").exists()


def test_opening_its_format_may_run_code_of_the_model():
    assert read_catalogue().is_native("torch-tensorrt")
