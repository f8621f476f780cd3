"""Models that take or return more than plain tensors: optional arguments, numbers, None, lists, arguments by name."""

from __future__ import annotations

import json

import numpy as np
import onnxruntime
import pytest

from kedro_hone.adaptors.pytorch import adaptor as module

torch = pytest.importorskip("torch")
pytestmark = [pytest.mark.toolchain, pytest.mark.filterwarnings("ignore")]

SOURCE = """
import torch


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.a = torch.nn.Linear(4, 8)

    def forward(self, x, weight=None, *, scale=2.0):
        y = self.a(x) * scale
        return {"y": y if weight is None else y * weight, "aux": None}


class Named(Net):
    def forward(self, x, *, scale):
        return {"aux": None, "y": self.a(x) * scale}


class Several(Net):
    def forward(self, x, others):
        return self.a(x) + sum(others.values() if isinstance(others, dict) else others)


class Moded(Net):
    def forward(self, x, mode="plain", flag=False):
        return self.a(x) if mode == "plain" and not flag else self.a(x) + 1


class Nothing(Net):
    def forward(self, x):
        return {"aux": None}
"""
NAMES: dict = {}
exec(SOURCE, NAMES)  # noqa: S102 - it is also written as a file, for the class
X, WEIGHT, OTHER = torch.rand(3, 4), torch.rand(3, 8), torch.rand(3, 8)
FIRST = {0: torch.export.Dim("batch")}


@pytest.fixture
def bench(make_bench):
    return make_bench(module)


def save(folder, name, args, kwargs=None, shapes=None):
    folder.mkdir()
    with torch.no_grad():
        program = torch.export.export(NAMES[name]().eval(), args, kwargs, dynamic_shapes=shapes)
    torch.export.save(program, folder / "model.pt2")
    return folder


WORKING = {
    "left-out": ("Net", (X,), {}, (FIRST,), ("x",)),
    "optional": ("Net", (X, WEIGHT), {}, (FIRST, FIRST), ("x", "weight")),
    "optional-by-name": ("Net", (X,), {"weight": WEIGHT}, {"x": FIRST, "weight": FIRST}, ("x", "weight")),
    "by-name": ("Named", (X,), {"scale": torch.rand(3, 1)}, {"x": FIRST, "scale": FIRST}, ("x", "scale")),
}


@pytest.mark.parametrize("case", WORKING)
def test_none_among_results_and_arguments_by_name_work(bench, tmp_path, case):
    name, args, kwargs, shapes, names = WORKING[case]
    folder = save(tmp_path / "source", name, args, kwargs, shapes)
    described = bench.describe(folder, "pytorch")
    assert [spec["name"] for spec in described["inputs"]] == list(names)
    assert [spec["name"] for spec in described["outputs"]] == ["y"]
    assert dict(described["structure"]["items"]) == {"y": "y", "aux": None}
    _, onnx = bench.transform("pytorch.onnx", folder)
    session = onnxruntime.InferenceSession(onnx / "model.onnx", providers=["CPUExecutionProvider"])
    assert [value.name for value in session.get_outputs()] == ["y"]
    _, script = bench.transform("pytorch.torchscript", folder, form="pytorch")
    for batch in (1, 4):
        fed = {
            key: torch.rand(batch, *old.shape[1:]) for key, old in zip(names, (*args, *kwargs.values()), strict=True)
        }
        with torch.no_grad():
            want = NAMES[name]()(**fed)["y"].numpy()
        feeds = {key: value.numpy() for key, value in fed.items()}
        for path, form in ((folder, "pytorch"), (script, "torchscript")):
            np.testing.assert_allclose(bench.run(path, form, [feeds], described=described)[0]["y"], want, atol=1e-6)
        np.testing.assert_allclose(session.run(None, feeds)[0], want, atol=1e-5)


REFUSED = {
    "none": ("Net", (X, None), {}, "'weight' is None"),
    "number-by-name": ("Net", (X,), {"scale": 3.0}, "scale=3.0"),
    "integer-by-name": ("Net", (X, WEIGHT), {"scale": 3}, "scale=3"),
    "flag": ("Moded", (X, "plain", True), {}, "'mode' is 'plain'"),
    "list": ("Several", (X, [WEIGHT, OTHER]), {}, "'others' is a list of tensors"),
    "dictionary-by-name": ("Several", (X,), {"others": {"b": WEIGHT, "c": OTHER}}, "'others' is a dict of tensors"),
    "no-tensor": ("Nothing", (X,), {}, "without a tensor"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_other_arguments_are_refused_by_their_names(bench, tmp_path, case):
    name, args, kwargs, said = REFUSED[case]
    refused = bench.describe(save(tmp_path / "source", name, args, kwargs), "pytorch")["refused"]
    assert said in refused
    assert "small module" in refused


@pytest.mark.parametrize("names", [("x", "scale"), ("input_0", "input_1")], ids=["named", "numbered"])
def test_a_class_takes_an_argument_by_name_alone(bench, tmp_path, names):
    from safetensors.torch import save_model

    net = NAMES["Named"]()
    folder = tmp_path / "source"
    folder.mkdir()
    save_model(net, str(folder / "model.safetensors"))
    (folder / "net.py").write_text(SOURCE)
    reference = {"file": "net.py", "class": "net.py:Named", "state": "model.safetensors", "kwargs": {}}
    (folder / "module.json").write_text(json.dumps(reference))
    shapes = (["batch", 4], ["batch", 1])
    inputs = [{"name": name, "dtype": "float32", "shape": shape} for name, shape in zip(names, shapes, strict=True)]
    stated = {"trust": ["module"], "described": {"inputs": inputs, "outputs": []}}
    described, _ = bench.call("describe", folder, "pytorch-module", **stated)
    feeds = {spec["name"]: torch.rand(5, spec["shape"][1]).numpy() for spec in described["inputs"]}
    with torch.no_grad():
        x, scale = map(torch.from_numpy, feeds.values())
        want = net(x, scale=scale)["y"].numpy()
    job = {"trust": ["module"], "described": described}
    np.testing.assert_allclose(bench.run(folder, "pytorch-module", [feeds], **job)[0]["y"], want, atol=1e-6)
    _, program = bench.transform("pytorch.export", folder, form="pytorch-module", **job)
    np.testing.assert_allclose(bench.run(program, "pytorch", [feeds])[0]["y"], want, atol=1e-6)
