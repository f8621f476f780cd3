"""The state of a module's archive is read as torch.export reads it, without torch.export."""

from __future__ import annotations

import json
import subprocess
import sys
import zipfile
from pathlib import Path
from types import SimpleNamespace

import pytest

from hone_runtime.worker.imports import load_file
from kedro_hone.adaptors.pytorch import adaptor as module

pytestmark = pytest.mark.toolchain

worker = load_file("hone_worker_of_states", str(module.TOOLCHAIN.worker))
read_state = worker.state.read_state


def save(folder, net, *rows):
    """Export a module, and return the archive's path."""
    import torch

    path = folder / "model.pt2"
    torch.export.save(torch.export.export(net.eval(), rows), path)
    return path


def make_net():
    """Return a module with parameters that share a storage, buffers of several types, and one without elements."""
    import torch

    class Net(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.one, self.two = torch.nn.Linear(4, 4), torch.nn.Linear(4, 4)
            self.two.weight = self.one.weight
            self.norm = torch.nn.BatchNorm1d(4)
            whole = torch.arange(24.0).reshape(4, 6)
            self.register_buffer("whole", whole)
            self.register_buffer("turned", whole.T)
            self.register_buffer("part", whole[1:3, 2:])
            self.register_buffer("thirds", torch.ones(3, dtype=torch.bfloat16) / 3)
            self.register_buffer("flags", torch.tensor([True, False, True]))
            self.register_buffer("numbers", torch.tensor([1, 255], dtype=torch.uint8))
            self.register_buffer("scalar", torch.tensor(7))
            self.register_buffer("nothing", torch.empty(0, 3))

        def forward(self, x):
            seen = self.turned.sum() + self.part.sum() + self.thirds.sum() + self.flags.sum() + self.numbers.sum()
            return self.norm(self.two(self.one(x))) + seen + self.scalar + self.nothing.sum()

    torch.manual_seed(0)
    return Net()


def test_it_is_what_torch_reads(tmp_path):
    import torch

    path = save(tmp_path, make_net(), torch.ones(2, 4))
    mine, theirs = read_state(path, ()), torch.export.load(path).state_dict
    assert [*mine] == [*theirs]
    assert len(mine) == 17
    for name, value in theirs.items():
        assert torch.equal(mine[name], value), name
        assert (mine[name].dtype, mine[name].stride()) == (value.dtype, value.stride()), name
    assert mine["one.weight"].data_ptr() == mine["two.weight"].data_ptr()
    assert mine["turned"].untyped_storage().data_ptr() == mine["part"].untyped_storage().data_ptr()


def test_what_only_torch_reads_is_left_to_torch(tmp_path, monkeypatch):
    import torch

    class Net(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("turn", torch.tensor([1 + 2j], dtype=torch.complex64))

        def forward(self, x):
            return x * self.turn

    path, asked = save(tmp_path, Net(), torch.ones(2, 1)), []
    read_program = worker.models.read_program
    monkeypatch.setattr(worker.models, "read_program", lambda *given: asked.append(given) or read_program(*given))
    assert torch.equal(read_state(path, ())["turn"], torch.tensor([1 + 2j]))
    assert len(asked) == 1


def change_list(path, target, change):
    """Copy an archive with another list of weights."""
    with zipfile.ZipFile(path) as old, zipfile.ZipFile(target, "w") as new:
        for name in old.namelist():
            content = old.read(name)
            if name.endswith("model_weights_config.json"):
                listed = json.loads(content)
                change(listed["config"])
                content = json.dumps(listed).encode()
            new.writestr(name, content)
    return target


def test_pickled_weights_are_refused(tmp_path):
    import torch

    path = save(tmp_path, make_net(), torch.ones(2, 4))
    changed = change_list(path, tmp_path / "p.pt2", lambda listed: listed["one.weight"].update(use_pickle=True))
    with pytest.raises(PermissionError, match="could run code from it: it holds pickled tensors"):
        read_state(changed, ())


@pytest.mark.parametrize(
    "change",
    [
        {"sizes": [{"as_int": 400}, {"as_int": 4}]},
        {"storage_offset": {"as_int": 9}},
        {"strides": [{"as_int": 1 << 40}] * 2},
    ],
)
def test_a_tensor_that_is_larger_than_its_storage_is_an_error(tmp_path, change):
    import torch

    path = save(tmp_path, make_net(), torch.ones(2, 4))
    changed = change_list(path, tmp_path / "p.pt2", lambda listed: listed["one.weight"]["tensor_meta"].update(change))
    with pytest.raises(RuntimeError, match="out of bounds"):
        read_state(changed, ())


def leave_out(path, target, part):
    """Copy an archive without an entry, or with another text in place of it."""
    name, _, text = part.partition("=")
    with zipfile.ZipFile(path) as old, zipfile.ZipFile(target, "w") as new:
        for each in old.namelist():
            if not each.endswith(name):
                new.writestr(each, old.read(each))
            elif text:
                new.writestr(each, text)
    return target


@pytest.mark.parametrize("part", ["/weight_0", "/weight_0=123", "/byteorder", "/byteorder=big", "/archive_version=7"])
def test_what_is_not_as_torch_writes_it_is_left_to_torch(tmp_path, monkeypatch, part):
    import torch

    path = leave_out(save(tmp_path, torch.nn.Linear(3, 2), torch.ones(2, 3)), tmp_path / "p.pt2", part)
    monkeypatch.setattr(worker.models, "read_program", lambda *_: SimpleNamespace(state_dict="read by torch"))
    assert read_state(path, ()) == "read by torch"


def test_loading_a_class_does_not_import_the_exporter(tmp_path):
    """What that costs each start of a source: two seconds on a slow core."""
    import torch

    (tmp_path / "net.py").write_text(
        "import torch\nclass Net(torch.nn.Linear):\n    def __init__(self):\n        super().__init__(3, 2)\n"
    )
    (tmp_path / "module.json").write_text(
        json.dumps({"file": "net.py", "class": "net.py:Net", "state": "model.pt2", "kwargs": {}})
    )
    save(tmp_path, torch.nn.Linear(3, 2), torch.ones(2, 3))
    tensors = {"inputs": [{"name": "x"}], "outputs": [{"name": "y"}]}
    job = {
        "input": {"path": str(tmp_path), "format": "pytorch-module", **tensors},
        "trust": ["module"],
        "threads": 1,
    }
    code = (
        "import json, sys; from hone_runtime.worker.imports import load_file\n"
        "worker = load_file('hone_worker', sys.argv[1])\n"
        "import numpy as np\n"
        "print(worker.load(json.loads(sys.argv[2])).run({'x': np.ones((2, 3), 'float32')})['y'].shape)\n"
        "print(sorted({'torch.export._trace', 'torch._dynamo', 'sympy'} & {*sys.modules}))"
    )
    command = [sys.executable, "-c", code, str(module.TOOLCHAIN.worker), json.dumps(job)]
    told = subprocess.run(command, capture_output=True, text=True, check=True, cwd=Path(__file__).parent)
    assert told.stdout.splitlines() == ["(2, 2)", "[]"]


PAIR = """
import torch


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(4, 1)

    def forward(self, history, numbers):
        return self.layer(history) - numbers
"""


@pytest.mark.parametrize(
    ("names", "fits"),
    [
        (("numbers", "history"), True),
        (("histroy", "numbers"), True),  # in the order of forward
        (("x", "y"), True),
        (("numbers", "histroy"), False),
        (("y", "history"), False),
    ],
    ids=str,
)
def test_inputs_that_are_half_named_are_not_taken_for_one_another(bench, tmp_path, names, fits):
    import safetensors.torch

    (tmp_path / "net.py").write_text(PAIR)
    safetensors.torch.save_model(load_file("pair_net", str(tmp_path / "net.py")).Net(), tmp_path / "model.safetensors")
    reference = {"class": "net:Net", "file": "net.py", "kwargs": {}, "state": "model.safetensors"}
    (tmp_path / "module.json").write_text(json.dumps(reference))
    inputs = [{"name": name, "dtype": "float32", "shape": ["batch", 4]} for name in names]
    specs = {"inputs": inputs, "outputs": []}
    result, _ = bench.call(
        "describe", tmp_path, "pytorch-module", trust=["module"], described=specs, expect_error=not fits
    )
    assert fits or "the arguments of forward are history, numbers, and the inputs are" in result["raised"]


TIED = """
import torch


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.one, self.two = torch.nn.Linear(4, 4), torch.nn.Linear(4, 4)
        self.two.weight = self.one.weight

    def forward(self, x):
        return self.two(torch.relu(self.one(x)))
"""


@pytest.fixture
def bench(make_bench):
    return make_bench(module)


@pytest.fixture
def weights(tmp_path):
    """Return a folder with a class, and its state in safetensors, which keep one of the names of a shared tensor."""
    import safetensors.torch

    (tmp_path / "net.py").write_text(TIED)
    net = load_file("tied_net", str(tmp_path / "net.py")).Net()
    safetensors.torch.save_model(net, tmp_path / "model.safetensors")
    reference = {"class": "net:Net", "file": "net.py", "kwargs": {}, "state": "model.safetensors"}
    (tmp_path / "module.json").write_text(json.dumps(reference))
    return tmp_path, net


def test_a_state_may_be_in_safetensors(bench, weights):
    import torch

    folder, net = weights
    specs = {"inputs": [{"name": "x", "dtype": "float32", "shape": ["batch", 4]}], "outputs": []}
    described, _ = bench.call("describe", folder, "pytorch-module", trust=["module"], described=specs)
    assert described["outputs"] == [{"name": "output_0", "dtype": "float32", "shape": ["batch", 4]}]
    rows = torch.randn(5, 4)
    found = bench.run(
        folder,
        "pytorch-module",
        [{"x": rows.numpy()}],
        described={**specs, "outputs": described["outputs"]},
        trust=["module"],
    )
    assert torch.allclose(torch.from_numpy(found[0]["output_0"]), net(rows).detach())


def test_a_part_of_a_tensor_is_not_the_whole(tmp_path):
    import safetensors.torch
    import torch

    class Net(torch.nn.Module):
        def __init__(self):
            super().__init__()
            whole = torch.arange(8.0).reshape(4, 2)
            self.register_buffer("whole", whole)
            self.register_buffer("part", whole[:2])
            self.register_buffer("column", whole[:, 0])
            self.register_buffer("nothing", torch.empty(0))

    path = tmp_path / "model.safetensors"
    for names, lacks in (
        (["whole", "nothing"], ()),
        (["part", "nothing"], ("whole", "column")),
        (["column", "nothing"], ("whole", "part")),
        (["whole"], ("nothing",)),
    ):
        net = Net()
        safetensors.torch.save_file({name: net.state_dict()[name].clone() + 1 for name in names}, path)
        if not lacks:
            worker.state.load_state(net, path, ())
            assert torch.equal(net.part, torch.arange(4.0).reshape(2, 2) + 1)
            continue
        with pytest.raises(RuntimeError) as caught:
            worker.state.load_state(net, path, ())
        assert all(f"'{name}'" in str(caught.value) for name in lacks)


def test_weights_alone_do_not_say_what_their_class_takes(bench, weights):
    result, _ = bench.call("describe", weights[0], "pytorch-module", trust=["module"])
    assert result["slug"] == "recipe-invalid"
    assert "what its class takes" in result["refused"]


def test_names_of_one_tensor_may_all_be_written(bench, weights):
    import safetensors.torch

    folder, net = weights
    state = {name: tensor.detach().clone() for name, tensor in net.state_dict().items()}
    safetensors.torch.save_file(state, folder / "model.safetensors")
    specs = {"inputs": [{"name": "x", "dtype": "float32", "shape": ["batch", 4]}], "outputs": []}
    described, _ = bench.call("describe", folder, "pytorch-module", trust=["module"], described=specs)
    assert described["outputs"][0]["shape"] == ["batch", 4]


@pytest.mark.parametrize("dtype", ["float16", "int8"])
def test_a_state_of_another_kind_of_number_is_no_state(bench, weights, dtype):
    import safetensors.torch
    import torch

    folder, net = weights
    state = {name: tensor.detach().to(getattr(torch, dtype)).clone() for name, tensor in net.state_dict().items()}
    safetensors.torch.save_file(state, folder / "model.safetensors")
    specs = {"inputs": [{"name": "x", "dtype": "float32", "shape": ["batch", 4]}], "outputs": []}
    fits = dtype == "float16"
    result, _ = bench.call(
        "describe", folder, "pytorch-module", trust=["module"], described=specs, expect_error=not fits
    )
    assert fits or "is torch.int8 in model.safetensors, and torch.float32 in the class" in result["raised"]


def test_a_program_of_fixed_sizes_fixes_its_class(bench, tmp_path):
    import torch

    (tmp_path / "net.py").write_text(TIED)
    net = load_file("fixed_net", str(tmp_path / "net.py")).Net()
    save(tmp_path, net, torch.ones(3, 4))
    reference = {"class": "net:Net", "file": "net.py", "kwargs": {}, "state": "model.pt2"}
    (tmp_path / "module.json").write_text(json.dumps(reference))
    result, _ = bench.call("describe", tmp_path, "pytorch-module", trust=["module"])
    assert result["inputs"] == [{"name": "x", "dtype": "float32", "shape": [3, 4]}]
    assert "was exported without dynamic_shapes" in result["warnings"][0]


@pytest.mark.parametrize("fault", ["missing", "strange", "cut"])
def test_a_state_that_does_not_fit_is_an_error(bench, weights, fault):
    import safetensors.torch

    folder, net = weights
    path = folder / "model.safetensors"
    state = {"one.weight": net.one.weight.detach()} | ({"three": net.one.bias.detach()} if fault == "strange" else {})
    safetensors.torch.save_file(state, path)
    if fault == "cut":
        path.write_bytes(path.read_bytes()[:-9])
    specs = {"inputs": [{"name": "x", "dtype": "float32", "shape": ["batch", 4]}], "outputs": []}
    result, _ = bench.call("describe", folder, "pytorch-module", trust=["module"], described=specs, expect_error=True)
    assert {"missing": "one.bias", "strange": "three", "cut": "incomplete"}[fault] in result["raised"]
