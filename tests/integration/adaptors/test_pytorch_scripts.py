"""Modules of TorchScript as sources: described by the recipe's inputs, run, frozen, and written as ONNX."""

from __future__ import annotations

import numpy as np
import onnxruntime
import pytest
import torch

from hone_runtime.values.artifact import Artifact
from hone_runtime.worker.packages import import_worker
from kedro_hone.adaptors.pytorch import adaptor as module
from kedro_hone.search.comparison.quantization import quantizes_activations

pytestmark = [pytest.mark.toolchain, pytest.mark.filterwarnings("ignore:.*torch.jit:DeprecationWarning")]

X = np.random.default_rng(0).normal(size=(7, 4)).astype(np.float32)
INPUTS = [{"name": "x", "dtype": "float32", "shape": ["batch", 4]}]


class Branches(torch.nn.Module):
    """A branch on the values and a loop over the columns, which a trace would lose."""

    def __init__(self):
        super().__init__()
        self.linear = torch.nn.Linear(4, 3)

    def forward(self, x):
        y = self.linear(x)
        for number in range(x.size(1)):
            y = y + x[:, number : number + 1]
        if float(x.sum()) > 0.0:
            y = y * 2.0
        return {"score": y, "least": y.min(dim=1)[0]}


class Plain(torch.nn.Module):
    """A net with dropout, which is off at inference also where it was saved while it trained."""

    def __init__(self):
        super().__init__()
        self.layers = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.ReLU(), torch.nn.Dropout(0.5))

    def forward(self, x):
        return self.layers(x)


MADE = {
    "scripted-branches": lambda: torch.jit.script(Branches().eval()),
    "scripted-training": lambda: torch.jit.script(Plain()),
    "traced": lambda: torch.jit.trace(Plain().eval(), torch.ones(2, 4)),
    "frozen": lambda: torch.jit.freeze(torch.jit.script(Plain().eval())),
}


@pytest.fixture
def bench(make_bench):
    return make_bench(module)


@pytest.fixture(params=MADE)
def script(request, tmp_path):
    """A folder with a module, and what it returns for the rows."""
    torch.manual_seed(0)
    made = MADE[request.param]()
    (tmp_path / "source").mkdir()
    torch.jit.save(made, tmp_path / "source" / "model.pt")
    loaded = torch.jit.load(tmp_path / "source" / "model.pt")
    found = (loaded.eval() if hasattr(loaded, "training") else loaded)(torch.from_numpy(X))
    values = found.values() if isinstance(found, dict) else [found]
    return tmp_path / "source", [value.detach().numpy() for value in values]


def describe(bench, folder):
    found, _ = bench.call("describe", folder, "torchscript-module", described={"inputs": INPUTS, "outputs": []})
    return found


def close(found, described, due):
    for spec, want in zip(described["outputs"], due, strict=True):
        np.testing.assert_allclose(found[spec["name"]], want, atol=1e-5)


def test_a_module_runs_as_it_was_saved(bench, script):
    folder, due = script
    described = describe(bench, folder)
    assert described["inputs"] == INPUTS
    assert all(spec["shape"][0] == "batch" for spec in described["outputs"])
    (found,) = bench.run(folder, "torchscript-module", [{"x": X}], described=described)
    close(found, described, due)


def test_a_module_becomes_onnx_for_any_rows(bench, script):
    folder, due = script
    described = describe(bench, folder)
    notes, output = bench.transform("pytorch.onnx-scripted", folder, form="torchscript-module", described=described)
    assert "failed" not in notes, notes
    session = onnxruntime.InferenceSession(output / "model.onnx", providers=["CPUExecutionProvider"])
    names = [value.name for value in session.get_outputs()]
    close(dict(zip(names, session.run(names, {"x": X}), strict=True)), described, due)
    if len(names) == 1:
        np.testing.assert_allclose(session.run(None, {"x": X[:1]})[0], due[0][:1], atol=1e-5)


def test_a_module_is_frozen(bench, script):
    folder, due = script
    described = describe(bench, folder)
    notes, output = bench.transform("pytorch.freeze", folder, form="torchscript-module", described=described)
    assert notes.keys() == {"outputs"}, notes
    assert bench.describe(output, "torchscript")["outputs"] == described["outputs"]
    (found,) = bench.run(output, "torchscript", [{"x": X}], described=described)
    close(found, described, due)


def test_what_nobody_states_is_asked_of_the_recipe(bench, tmp_path):
    torch.jit.save(torch.jit.script(Plain()), tmp_path / "model.pt")
    found, _ = bench.call("describe", tmp_path, "torchscript-module")
    assert found["slug"] == "recipe-invalid"
    assert "its arguments are x" in found["refused"]


QUANTIZE = {
    "script": torch.jit.script,
    "trace": lambda net: torch.jit.trace(net, torch.ones(2, 4)),
    "script inside": lambda net: torch.nn.Sequential(torch.jit.script(net), torch.nn.ReLU()).eval(),
    "class": lambda net: net,
}


@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore:torch.quantize_per_tensor:UserWarning")
@pytest.mark.parametrize(("dtype", "quantized"), [(torch.qint8, True), (torch.float16, False)])
@pytest.mark.parametrize("kind", QUANTIZE)
def test_what_quantizes_at_run_time_is_known(kind, dtype, quantized):
    net = torch.ao.quantization.quantize_dynamic(Plain().eval(), {torch.nn.Linear}, dtype=dtype)

    listed = import_worker(str(module.TOOLCHAIN.worker)).models.list_operators(QUANTIZE[kind](net))

    source = Artifact(format="", digest="", inputs=(), outputs=(), metadata={"operators": listed})
    assert quantizes_activations(source) is quantized, listed


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.parametrize("change", [torch.jit.freeze, lambda script: script.train()], ids=["frozen", "training"])
def test_a_script_that_cannot_be_frozen_keeps_its_operators(change):
    net = torch.ao.quantization.quantize_dynamic(Plain().eval(), {torch.nn.Linear}, dtype=torch.float16)
    script = change(torch.jit.script(net.eval()))
    with pytest.raises((RuntimeError, AttributeError)):
        torch.jit.freeze(script)

    listed = import_worker(str(module.TOOLCHAIN.worker)).models.list_operators(script)

    assert "quantized::linear_dynamic_fp16" in listed


def test_the_operators_of_a_script_are_listed(bench, script):
    operators = describe(bench, script[0])["operators"]

    assert {"aten::linear"} <= {*operators}
    assert not [name for name in operators if not name.startswith("aten::")]
