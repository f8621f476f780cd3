"""What `kedro hone toolchains test` says of adaptors for GPUs, by workers that run in this interpreter."""

from __future__ import annotations

import dataclasses
import sys

import pytest
from click.testing import CliRunner

from hone_runtime.contract.adaptor import Adaptor, Need
from hone_runtime.contract.catalogue import Catalogue
from hone_runtime.contract.hardware import read_host
from hone_runtime.contract.toolchain import Toolchain
from hone_runtime.values.artifact import Precision, Stage
from kedro_hone.cli import plugins

WORKER = """
import pathlib

def probe(job):
    pathlib.Path(job["temporary"], "tried").touch()
    name = job["adaptor"].partition(".")[2]
    if name == "broken": raise RuntimeError("CUDA failure 304")
    return {"lacks": "the libraries of TensorRT"} if name == "engine" else {}
"""


@pytest.fixture
def test(tmp_path, monkeypatch):
    """Test a toolchain of these adaptors on a machine with a GPU; return the exit code and the lines."""
    monkeypatch.setenv("HONE_HOME", str(tmp_path / "home"))
    monkeypatch.setattr(plugins, "read_host", lambda: dataclasses.replace(read_host(), gpu="NVIDIA H100"))
    folder = tmp_path / "tool"
    (folder / "worker").mkdir(parents=True)
    (folder / "worker" / "__init__.py").write_text(WORKER)
    (folder / "requirements.in").write_text("packaging")
    tool = Toolchain(name="tool", folder=folder, runs=frozenset({"onnx"}))

    def test(*names, needs=frozenset({Need.GPU}), options=("tool",)):
        adaptors = {
            f"tool.{name}": Adaptor(
                name=f"tool.{name}",
                version=1,
                summary="",
                toolchain=tool,
                stage=Stage.COMPILE,
                accepts=frozenset({"onnx"}),
                produces="onnx",
                needs=needs,
                precisions=frozenset({Precision.FP32}),
                device="cuda:0",
            )
            for name in names
        }
        catalogue = Catalogue(adaptors=adaptors, toolchains={"tool": tool}, broken={})
        monkeypatch.setattr(plugins, "read_catalogue", lambda: catalogue)
        done = CliRunner().invoke(plugins.toolchains, ["test", *options])
        return done.exit_code, done.output.splitlines()

    return test


def test_each_adaptor_for_gpus_is_tried(test):
    assert test("cuda") == (0, ["tool               this interpreter", "  tool.cuda: works"])


def test_one_that_lacks_something_says_what(test):
    code, lines = test("cuda", "engine")
    assert (code, lines[1:]) == (1, ["  tool.cuda: works", "  tool.engine: the libraries of TensorRT"])


def test_an_error_has_its_log(test, tmp_path):
    code, (_, line) = test("broken")
    log = tmp_path / "home" / "logs" / "probe-tool.broken" / "log"
    assert (code, line) == (1, f"  tool.broken: RuntimeError: CUDA failure 304; the log is {log}")
    assert "CUDA failure 304" in log.read_text()


def test_what_needs_no_gpu_is_not_tried(test):
    assert test("broken", needs=frozenset()) == (0, ["tool               this interpreter"])


def test_an_interpreter_is_checked_as_a_recipe_would_name_it(test):
    code, lines = test("cuda", "engine", options=("tool", "--python", sys.executable))
    assert (code, lines[0]) == (1, f"tool               the interpreter {sys.executable}")
    assert lines[1:] == ["  tool.cuda: works", "  tool.engine: the libraries of TensorRT"]
    assert test("cuda", options=("tool", "--python", sys.executable))[0] == 0


@pytest.mark.parametrize(
    ("python", "why"),
    [
        ("/nowhere/python", "cannot be started"),
        ("/bin/true", "cannot run a worker: ended with exit code 0 and no result; the log is "),
    ],
)
def test_what_is_no_interpreter_is_told_with_or_without_a_gpu(test, monkeypatch, python, why):
    for gpu, rest in (("NVIDIA H100", ""), (None, "; it needs a GPU, and this machine has none")):
        monkeypatch.setattr(plugins, "read_host", lambda gpu=gpu: dataclasses.replace(read_host(), gpu=gpu))
        code, (line,) = test("cuda", options=("tool", "--python", python))
        assert code == 1
        assert line.startswith(f"tool               none: {python}, named for tool, {why}")
        assert line.endswith(rest)


def test_an_interpreter_is_checked_without_a_gpu_too(test, monkeypatch):
    monkeypatch.setattr(plugins, "read_host", lambda: dataclasses.replace(read_host(), gpu=None))
    said = f"tool               the interpreter {sys.executable}; it needs a GPU, and this machine has none"
    assert test("cuda", options=("tool", "--python", sys.executable)) == (0, [said])


def test_a_path_is_read_as_in_a_recipe(test, monkeypatch, tmp_path):
    monkeypatch.setenv("HOME", str(tmp_path))
    _, (line,) = test("cuda", options=("tool", "--python", "~/own/../python"))
    assert f"{tmp_path}/python, named for tool" in line


@pytest.mark.parametrize("names", [(), ("tool", "other")])
def test_an_interpreter_is_of_one_toolchain(test, names):
    code, lines = test("cuda", options=(*names, "--python", sys.executable))
    assert code == 2
    assert "name that toolchain" in lines[-1]
