"""Weights of an adapter that was not merged have no place in the model's class, and are not lost in silence."""

from __future__ import annotations

import json

import pytest
import safetensors.torch
import torch
from transformers import BertConfig, BertForMaskedLM, BertForSequenceClassification

from hone_runtime.worker.packages import import_worker
from kedro_hone.adaptors.pytorch.adaptor import TOOLCHAIN
from kedro_hone.sources.detection import read_flavor
from kedro_hone.sources.formats.transformers import write

pytestmark = pytest.mark.toolchain

worker = import_worker(str(TOOLCHAIN.worker))
from hone_pytorch import adapters  # noqa: E402 - of the worker that was imported

SIZES = {"hidden_size": 32, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 64}
QUERY = "bert.encoder.layer.0.attention.self.query."
LORA = {f"{QUERY}lora_A.default.weight": torch.ones(4, 32), f"{QUERY}lora_B.default.weight": torch.ones(32, 4)}


@pytest.fixture
def pulled(tmp_path):
    """A small BERT as ``save_pretrained`` writes it."""
    folder = tmp_path / "pulled"
    BertForSequenceClassification(BertConfig(vocab_size=100, **SIZES)).save_pretrained(folder)
    return folder


@pytest.fixture
def describe(tmp_path):
    """Return a function that describes a folder as its source's worker does."""

    def describe(folder, **how):
        flavor = read_flavor(folder, trust=frozenset(how.get("trust", ())))
        write(flavor, folder, tmp_path / "sealed")
        given = {"path": str(tmp_path / "sealed"), "format": "transformers", "inputs": [], "outputs": []}
        return worker.describe({"input": {**given, "metadata": flavor.metadata}, "threads": 1, "trust": [], **how})

    return describe


def change(folder, more, *, without=(), renamed=()):
    """Write the weights of a folder again: with some more, without some, and some renamed."""
    path = folder / "model.safetensors"
    found = safetensors.torch.load_file(path)
    found = {dict(renamed).get(name, name): tensor for name, tensor in found.items() if name not in without}
    safetensors.torch.save_file(found | more, path, metadata={"format": "pt"})


CASES = {
    "lora on top": (LORA, {}),
    "lora around a layer": (LORA, {f"{QUERY}weight": f"{QUERY}base_layer.weight"}),
    "dora": ({f"{QUERY}lora_magnitude_vector.default.weight": torch.ones(32)}, {}),
    "embedding": ({"bert.embeddings.word_embeddings.lora_embedding_A.default": torch.ones(4, 100)}, {}),
    "ia3": ({f"{QUERY}ia3_l.default": torch.ones(32, 1)}, {}),
    "saved modules": (
        {"classifier.modules_to_save.default.weight": torch.ones(2, 32)},
        {"classifier.weight": "classifier.original_module.weight"},
    ),
    "prompt": ({"prompt_encoder.default.embedding.weight": torch.ones(8, 32)}, {}),
}


@pytest.mark.parametrize("case", CASES)
def test_an_adapter_in_the_weights_is_refused_with_what_merges_it(pulled, describe, case):
    more, renamed = CASES[case]
    change(pulled, more, renamed=renamed.items())
    found = describe(pulled)
    said = found["refused"]
    assert found["slug"] == "adapter-unmerged"
    assert "adapter of PEFT" in said
    assert "model.merge_and_unload()" in said
    assert "model.save_pretrained(folder)" in said


def test_an_adapter_in_a_pickle_is_refused(pulled, describe):
    found = safetensors.torch.load_file(pulled / "model.safetensors")
    torch.save(found | LORA, pulled / "pytorch_model.bin")
    (pulled / "model.safetensors").unlink()
    assert "lora_A" in describe(pulled, trust=["pickle"])["refused"]


def test_other_weights_without_a_place_are_a_warning(pulled, describe):
    assert "warnings" not in describe(pulled)
    change(pulled, {"head.extra.weight": torch.ones(3)})
    said = describe(pulled)
    assert said["warnings"] == [
        "its files have weights that BertForSequenceClassification does not use: head.extra.weight"
    ]
    assert said["outputs"]


def test_missing_weights_are_told_as_before(pulled, describe):
    change(pulled, {}, without=["classifier.weight"])
    assert "trained for another task" in describe(pulled)["refused"]


@pytest.mark.parametrize("more", [{"query.lora_A.default.weight": torch.ones(2, 4)}, {"query.ia3_l": torch.ones(4, 1)}])
@pytest.mark.parametrize("whole", [True, False])
def test_an_adapter_in_the_state_of_a_class_is_refused(tmp_path, more, whole):
    net = torch.nn.Module()
    net.query = torch.nn.Linear(4, 4)
    state = net.state_dict()
    if not whole:
        state["query.base_layer.weight"] = state.pop("query.weight")
    path = tmp_path / "model.safetensors"
    safetensors.torch.save_file(state | more, path)
    with pytest.raises(RuntimeError, match=r"adapter of PEFT .*model\.merge_and_unload\(\)"):
        worker.state.load_state(net, path, ())


def test_a_class_that_has_the_adapter_takes_its_state(tmp_path):
    net = torch.nn.Module()
    net.lora_A = torch.nn.Linear(4, 4)
    path = tmp_path / "model.safetensors"
    safetensors.torch.save_file({"lora_A.weight": torch.ones(4, 4), "lora_A.bias": torch.zeros(4)}, path)
    worker.state.load_state(net, path, ())
    assert torch.equal(net.lora_A.weight, torch.ones(4, 4))


def test_names_of_models_are_none_of_adapters():
    own = BertForMaskedLM(BertConfig(vocab_size=100, **SIZES)).state_dict()
    others = ("adapter.layers.0.conv.weight", "encoder.layers.1.adapter_layer.norm.weight", "explorer.lorax.weight")
    assert adapters.list_adapters([*own, *others]) == []
    lora = "lora_unet_down_blocks_0.lora_down.weight"
    assert adapters.list_adapters([lora]) == [lora]


NET = """
import torch


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.query = torch.nn.Linear(4, 4)

    def forward(self, x):
        return self.query(x)
"""


def test_a_class_whose_state_has_an_adapter_is_refused_when_it_is_described(tmp_path):
    (tmp_path / "net.py").write_text(NET)
    module = {"class": "net:Net", "file": "net.py", "kwargs": {}, "state": "model.safetensors"}
    (tmp_path / "module.json").write_text(json.dumps(module))
    state = {"query.weight": torch.ones(4, 4), "query.bias": torch.ones(4), "query.lora_A.weight": torch.ones(2, 4)}
    safetensors.torch.save_file(state, tmp_path / "model.safetensors")
    inputs = [{"name": "x", "dtype": "float32", "shape": ["batch", 4]}]
    given = {"path": str(tmp_path), "format": "pytorch-module", "inputs": inputs, "outputs": [], "metadata": {}}
    found = worker.describe({"input": given, "threads": 1, "shapes": [], "seed": 0, "trust": ["module"]})
    assert found["slug"] == "adapter-unmerged"
    assert "query.lora_A.weight" in found["refused"]
