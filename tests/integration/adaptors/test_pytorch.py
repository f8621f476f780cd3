"""PyTorch's adaptors on a real net: transform, describe, load in a new process, run at several batch sizes."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import numpy as np
import onnxruntime
import pytest

from kedro_hone.adaptors.pytorch import adaptor as module

pytestmark = pytest.mark.toolchain

INPUTS = [{"name": "image", "dtype": "float32", "shape": ["batch", 1, 8, 8]}]
OUTPUTS = [{"name": "logits", "dtype": "float32", "shape": ["batch", 10]}]
SPECS = {"inputs": INPUTS, "outputs": OUTPUTS}
SHAPES = [{"name": f"batch{size}", "sizes": {"batch": size}} for size in (1, 64)]
TRUST = ["module"]


@pytest.fixture
def bench(make_bench):
    return make_bench(module)


@pytest.fixture(scope="module")
def shared_bench(make_shared_bench):
    return make_shared_bench(module)


@pytest.fixture(scope="module")
def expected(shared_bench, digits_module, digits_samples):
    """What the author's class returns, run as the author would."""
    return run(shared_bench, digits_module, "pytorch-module", digits_samples.x, (1, 7, 64))


@pytest.fixture(scope="module")
def exported_here(shared_bench, digits_module, digits_samples):
    """The notes and the output of ``pytorch.export``."""
    calibration = str(digits_samples.calibration)
    return transform(shared_bench, "pytorch.export", digits_module, "pytorch-module", calibration=calibration)


@pytest.fixture(scope="module")
def sources(digits_module, digits_exported):
    """The net's directory of each of PyTorch's formats."""
    return {"pytorch-module": digits_module, "pytorch": digits_exported}


def run(bench, path, form, x, batches, **job):
    feeds = [{"image": x[:batch]} for batch in batches]
    outputs = bench.run(path, form, feeds, described=SPECS, trust=TRUST, **job)
    return [each["logits"] for each in outputs]


def transform(bench, name, path, form, **job):
    return bench.transform(name, path, form=form, described=SPECS, trust=TRUST, **{"shapes": SHAPES, **job})


def close(got, want, tolerance=1e-4):
    for have, should in zip(got, want, strict=True):
        np.testing.assert_allclose(have, should, atol=tolerance, rtol=1e-3)


def test_export_keeps_the_batch_dynamic_and_the_author_private(bench, exported_here, digits_samples, expected):
    notes, output = exported_here
    described = bench.describe(output, "pytorch")
    assert {key: described[key] for key in SPECS} == SPECS
    assert notes["inputs"] == INPUTS
    close(run(bench, output, "pytorch", digits_samples.x, (1, 7, 64)), expected)
    with zipfile.ZipFile(output / "model.pt2") as archive:
        graph = next(archive.read(name) for name in archive.namelist() if name.endswith("models/model.json"))
        assert b"stack_trace" not in graph
        samples = next(archive.read(name) for name in archive.namelist() if "sample_inputs" in name)
        assert len(samples) < 256  # no rows of the calibration data


@pytest.mark.attack(
    what="a model that needs its author's class",
    who="registry",
    stopped_by="the class is run with `trust: [module]` only",
)
def test_a_class_runs_only_when_it_is_trusted(bench, digits_module):
    for name in ("pytorch.export", "pytorch.torchscript", "pytorch.compile"):
        notes, _ = bench.transform(name, digits_module, form="pytorch-module", described=SPECS)
        assert "trust" in notes["refused"]
    result, _ = bench.call("describe", digits_module, "pytorch-module", described=SPECS, expect_error=True)
    assert "trust" in result["raised"]


def test_describe_runs_the_class_for_what_it_returns(bench, digits_module):
    unread = {"inputs": INPUTS, "outputs": []}
    result, _ = bench.call("describe", digits_module, "pytorch-module", trust=TRUST, described=unread)
    operators = ["BatchNorm2d", "Conv2d", "Linear", "MaxPool2d", "ReLU"]
    assert result == {"inputs": INPUTS, "outputs": [{**OUTPUTS[0], "name": "output_0"}], "operators": operators}


def test_inputs_that_nobody_states_are_those_of_the_program_with_the_state(bench, digits_module):
    result, _ = bench.call("describe", digits_module, "pytorch-module", trust=TRUST)
    (stated,) = result["inputs"]
    assert (stated["dtype"], stated["shape"]) == (INPUTS[0]["dtype"], INPUTS[0]["shape"])


def rename_input(name):
    return {**SPECS, "inputs": [{**INPUTS[0], "name": name}]}


def test_inputs_without_names_get_those_of_forwards_arguments(bench, digits_module):
    """``input_0`` is what the host calls a tensor that MLflow's signature does not name."""
    result, _ = bench.call("describe", digits_module, "pytorch-module", trust=TRUST, described=rename_input("input_0"))
    assert {side: result[side] for side in SPECS} == SPECS


def test_inputs_with_names_keep_them(bench, digits_module):
    result, _ = bench.call("describe", digits_module, "pytorch-module", trust=TRUST, described=rename_input("pixels"))
    assert {side: result[side] for side in SPECS} == rename_input("pixels")


def test_onnx_has_the_names_of_the_specs(bench, digits_exported, digits_samples, expected):
    notes, output = transform(bench, "pytorch.onnx", digits_exported, "pytorch")
    assert notes["metadata"]["opset"] == 20
    assert [path.name for path in output.iterdir()] == ["model.onnx"]
    assert b"site-packages" not in (output / "model.onnx").read_bytes()
    session = onnxruntime.InferenceSession(output / "model.onnx", providers=["CPUExecutionProvider"])
    assert [(value.name, value.shape) for value in session.get_inputs()] == [("image", ["batch", 1, 8, 8])]
    assert [(value.name, value.shape) for value in session.get_outputs()] == [("logits", ["batch", 10])]
    close([session.run(None, {"image": digits_samples.x[:size]})[0] for size in (1, 7, 64)], expected)


@pytest.mark.parametrize("form", ["pytorch-module", "pytorch"])
def test_torchscript(bench, sources, digits_samples, expected, form):
    _, output = transform(bench, "pytorch.torchscript", sources[form], form)
    described = bench.describe(output, "torchscript")
    assert {key: described[key] for key in SPECS} == SPECS
    close(run(bench, output, "torchscript", digits_samples.x, (1, 7, 64)), expected)


@pytest.fixture
def sizes_module(tmp_path):
    """A ``pytorch-module`` of which both dimensions are dynamic."""
    folder = tmp_path / "sizes"
    folder.mkdir()
    shutil.copy(Path(__file__).with_name("sizes_net.py"), folder)
    reference = {"class": "sizes_net:SizesNet", "file": "sizes_net.py", "kwargs": {}, "state": "model.pt2"}
    (folder / "module.json").write_text(json.dumps(reference))
    code = (
        "import sys, torch\n"
        "from sizes_net import SizesNet\n"
        "program = torch.export.export(SizesNet(), (torch.ones(2, 3, dtype=torch.int64),))\n"
        "torch.export.save(program, sys.argv[1])\n"
    )
    subprocess.run([sys.executable, "-W", "ignore", "-c", code, str(folder / "model.pt2")], cwd=folder, check=True)
    return folder


def test_torchscript_of_what_was_exported_here(bench, exported_here, digits_samples, expected):
    _, output = transform(bench, "pytorch.torchscript", exported_here[1], "pytorch")
    close(run(bench, output, "torchscript", digits_samples.x, (1, 7, 64)), expected)


MASKED = """import torch
from torch import nn


class Masked(nn.Module):
    def __init__(self):
        super().__init__()
        self.table = nn.Embedding(9, 4)

    def forward(self, tokens, mask):
        return (self.table(tokens) * mask[:, :, None]).sum(1)


if __name__ == "__main__":
    import sys

    rows = torch.ones(2, 3, dtype=torch.int64)
    torch.export.save(torch.export.export(Masked(), (rows, rows > 0)), sys.argv[1])
"""


def test_sizes_that_have_to_be_the_same_are_found_out(bench, tmp_path):
    """A signature names no sizes: those of tokens and mask are taken for two, with which the model cannot be called."""
    (tmp_path / "masked.py").write_text(MASKED)
    subprocess.run([sys.executable, "-W", "ignore", "masked.py", "model.pt2"], cwd=tmp_path, check=True)
    reference = {"class": "masked:Masked", "file": "masked.py", "kwargs": {}, "state": "model.pt2"}
    (tmp_path / "module.json").write_text(json.dumps(reference))
    specs = [
        {"name": name, "dtype": dtype, "shape": ["batch", f"{name}_1"]}
        for name, dtype in (("tokens", "int64"), ("mask", "bool"))
    ]
    unread, shapes = {"inputs": specs, "outputs": []}, [{"name": "one", "sizes": {"batch": 1, "length": 5}}]
    named, _ = bench.call("describe", tmp_path, "pytorch-module", trust=TRUST, described=unread, shapes=shapes)
    assert [one["shape"] for one in named["inputs"]] == [["batch", "length"]] * 2
    assert [one["shape"] for one in named["outputs"]] == [["batch", 4]]
    described, _ = bench.call("describe", tmp_path, "pytorch-module", trust=TRUST, described=unread)
    assert [one["shape"] for one in described["inputs"]] == [["batch", "mask_1"]] * 2


@pytest.mark.nightly
def test_torchscript_keeps_the_sizes_that_a_program_computes_with(bench, sizes_module):
    unread = {"inputs": [{"name": "ids", "dtype": "int64", "shape": ["batch", "length"]}], "outputs": []}
    described, _ = bench.call("describe", sizes_module, "pytorch-module", trust=TRUST, described=unread)
    source = {"described": described, "trust": TRUST}
    feeds = [{"ids": np.arange(rows * length).reshape(rows, length) % 50} for rows, length in ((1, 3), (5, 12), (3, 8))]
    expected = bench.run(sizes_module, "pytorch-module", feeds, **source)
    shapes = [{"name": "one", "sizes": {"batch": 1, "length": 8}}]
    notes, exported = bench.transform("pytorch.export", sizes_module, form="pytorch-module", shapes=shapes, **source)
    assert notes.get("inputs") == described["inputs"], notes
    _, output = bench.transform("pytorch.torchscript", exported, form="pytorch", shapes=shapes, **source)
    for got, wanted in zip(bench.run(output, "torchscript", feeds, described=described), expected, strict=True):
        assert got.keys() == wanted.keys()
        close([got[name] for name in wanted], list(wanted.values()))


@pytest.mark.nightly
@pytest.mark.parametrize(
    "case", [("pytorch.compile", "pytorch-module"), ("pytorch.compile-exported", "pytorch")], ids=str
)
def test_torch_compile(bench, sources, digits_samples, expected, case):
    name, form = case
    adaptor = bench.adaptors[name]
    _, output = transform(bench, name, sources[form], form)
    options = adaptor.run_options(adaptor.options())
    assert options["compile"] is True
    close(run(bench, output, form, digits_samples.x, (1, 7, 64), run_options=options, shapes=SHAPES), expected)


@pytest.mark.nightly
@pytest.mark.parametrize("case", [("pytorch.aoti", 1e-4, SHAPES), ("pytorch.aoti-bf16", 0.5, SHAPES[1:])], ids=str)
def test_ahead_of_time_packages_serve_their_shapes_only(bench, digits_exported, digits_samples, expected, case):
    name, tolerance, shapes = case
    notes, output = transform(bench, name, digits_exported, "pytorch", shapes=shapes)
    assert notes["static_shapes"] == [shape["name"] for shape in shapes]
    assert bench.describe(output, "aot-inductor") == SPECS
    sizes = [shape["sizes"]["batch"] for shape in shapes]
    got = run(bench, output, "aot-inductor", digits_samples.x, sizes)
    close(got, [wanted for wanted in expected if len(wanted) in sizes], tolerance)
    feeds = [{"image": digits_samples.x[:7]}]
    result, _ = bench.call("run", output, "aot-inductor", feeds=feeds, described=SPECS, expect_error=True)
    assert "fed" in result["raised"]
    if name == "pytorch.aoti":
        check_that_a_package_alone_does_not_check(output / "model-batch64.pt2")


def test_a_worker_starts_without_the_compilers():
    """They are half of the time of a start, which packages, TorchScript and classes are spared."""
    code = (
        "import sys\n"
        "from hone_runtime.worker.imports import load_file\n"
        "load_file('worker', sys.argv[1])\n"
        "print(*{'torch', 'torch._dynamo', 'torch._inductor'}.intersection(sys.modules))\n"
    )
    command = [sys.executable, "-c", code, str(module.TOOLCHAIN.worker)]
    assert subprocess.run(command, capture_output=True, text=True, check=True).stdout.split() == ["torch"]


def check_that_a_package_alone_does_not_check(package):
    """The fact behind ``AOTI_RUNTIME_CHECK_INPUTS`` and our own check: fed 128 rows it returns 64, without an error.

    Fed fewer than 64 rows it reads past their end: it returns 64 rows as well, or dies of a segmentation fault.
    """
    script = (
        "import sys, torch\n"
        "package = torch._C._aoti.AOTIModelPackageLoader(sys.argv[1], 'model', False, 1, -1)\n"
        "print('rows', len(package.boxed_run([torch.rand(128, 1, 8, 8)])[0]))\n"
    )
    for checks in ("0", "1"):
        environment = {**os.environ, "AOTI_RUNTIME_CHECK_INPUTS": checks}
        command = [sys.executable, "-c", script, str(package)]
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
        assert ("rows 64" in done.stdout) is (checks == "0"), done.stderr
        assert (done.returncode == 0) is (checks == "0")


@pytest.mark.nightly
def test_int8_survives_to_both_compilers(bench, digits_exported, digits_samples):
    x, y = digits_samples.x, digits_samples.y
    notes, quantized = transform(
        bench, "pytorch.pt2e-int8", digits_exported, "pytorch", calibration=str(digits_samples.calibration)
    )
    assert notes["metadata"] == {"quantization": "pt2e-x86-int8"}
    described = bench.describe(quantized, "pytorch")
    assert {key: described[key] for key in SPECS} == SPECS

    _, compiled = transform(bench, "pytorch.aoti", quantized, "pytorch", shapes=SHAPES[1:])
    parts = bench.run(
        compiled, "aot-inductor", [{"image": x[start : start + 64]} for start in range(0, 512, 64)], described=SPECS
    )
    assert (np.concatenate([part["logits"] for part in parts]).argmax(1) == y).mean() > 0.97

    _, written = transform(bench, "pytorch.onnx", quantized, "pytorch")
    session = onnxruntime.InferenceSession(written / "model.onnx", providers=["CPUExecutionProvider"])
    assert (session.run(None, {"image": x})[0].argmax(1) == y).mean() > 0.97

    again, _ = transform(bench, "pytorch.pt2e-int8", quantized, "pytorch", calibration=str(digits_samples.calibration))
    assert "nothing_to_do" in again
    refused, _ = transform(bench, "pytorch.aoti-bf16", quantized, "pytorch")
    assert "refused" in refused


MIXED = (
    "import sys, torch\n"
    "class Mixed(torch.nn.Module):\n"
    "    def __init__(self):\n"
    "        super().__init__()\n"
    "        torch.manual_seed(0)\n"
    "        self.first, self.second = torch.nn.Linear(16, 16), torch.nn.Linear(16, 8)\n"
    "    def forward(self, x, *, gate, shift):\n"
    "        return self.second(torch.relu(self.first(x)) * gate) + shift\n"
    "rows = {0: torch.export.Dim('batch')}\n"
    "named = {'gate': torch.rand(3, 16), 'shift': torch.rand(3, 8)}\n"
    "dims = {'x': rows, 'gate': rows, 'shift': rows}\n"
    "program = torch.export.export(Mixed(), (torch.rand(3, 16),), named, dynamic_shapes=dims)\n"
    "torch.export.save(program, sys.argv[1])\n"
)


@pytest.mark.nightly
def test_int8_of_a_program_that_takes_inputs_by_position_and_by_name(bench, tmp_path):
    source = tmp_path / "mixed"
    source.mkdir()
    subprocess.run([sys.executable, "-W", "ignore", "-c", MIXED, str(source / "model.pt2")], check=True)
    described = bench.describe(source, "pytorch")
    shapes = {spec["name"]: spec["shape"] for spec in described["inputs"]}
    assert shapes == {"x": ["batch", 16], "gate": ["batch", 16], "shift": ["batch", 8]}
    draw = np.random.default_rng(0)
    rows = {name: draw.random((128, shape[1]), np.float32) for name, shape in shapes.items()}
    np.savez(tmp_path / "calibration.npz", **rows)
    job = {"form": "pytorch", "calibration": str(tmp_path / "calibration.npz")}
    notes, quantized = bench.transform("pytorch.pt2e-int8", source, **job)
    assert notes.get("metadata") == {"quantization": "pt2e-x86-int8"}, notes
    assert bench.describe(quantized, "pytorch")["inputs"] == described["inputs"]
    feeds = [{name: array[:size] for name, array in rows.items()} for size in (1, 7, 64)]
    for got, want in zip(*(bench.run(each, "pytorch", feeds) for each in (quantized, source)), strict=True):
        close([got[name] for name in want], list(want.values()), 0.02)


@pytest.mark.parametrize(
    ("kind", "said"),
    [("branch", "it branches on its input"), ("sizes", "what the model computed from the sizes of the example")],
)
def test_what_a_tracer_froze_is_named_by_what_was_seen(bench, tmp_path, kind, said):
    (tmp_path / "frozen_net.py").write_text(
        "from torch import nn\n"
        "class Frozen(nn.Module):\n"
        "    def __init__(self, kind):\n"
        "        super().__init__()\n"
        "        self.kind, self.out = kind, nn.Linear(4, 2)\n"
        "    def forward(self, x):\n"
        "        if self.kind == 'sizes':\n"
        "            return self.out(x) * float(x.shape[0])\n"
        "        return self.out(x) if x.sum() < 8 else -self.out(x)\n"
    )
    reference = {"class": "frozen_net:Frozen", "file": "frozen_net.py", "kwargs": {"kind": kind}, "state": "model.pt2"}
    (tmp_path / "module.json").write_text(json.dumps(reference))
    code = (
        "import sys, torch\n"
        "from frozen_net import Frozen\n"
        "torch.export.save(torch.export.export(Frozen('sizes'), (torch.ones(2, 4),)), sys.argv[1])\n"
    )
    subprocess.run([sys.executable, "-W", "ignore", "-c", code, str(tmp_path / "model.pt2")], cwd=tmp_path, check=True)
    unread = {"inputs": [{"name": "x", "dtype": "float32", "shape": ["batch", 4]}], "outputs": []}
    described, _ = bench.call("describe", tmp_path, "pytorch-module", trust=TRUST, described=unread)
    shapes = [{"name": "one", "sizes": {"batch": 1}}]

    notes, _ = bench.transform(
        "pytorch.torchscript", tmp_path, form="pytorch-module", shapes=shapes, described=described, trust=TRUST
    )

    assert notes["failed"]["class"] == "numerics", notes
    assert said in notes["failed"]["reason"]
