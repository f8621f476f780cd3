"""An adapter of LoRA that is merged here gives what its base model gives with the adapter beside it."""

from __future__ import annotations

import json

import pytest
import safetensors.torch
import torch
from torch import nn
from transformers import BertConfig, BertForMaskedLM, BertForSequenceClassification, GPT2Config, GPT2LMHeadModel

from kedro_hone.adaptors.pytorch.adaptor import TOOLCHAIN
from kedro_hone.core.workers.inside.loading import load_file

pytestmark = pytest.mark.toolchain

worker = load_file("hone_worker_of_lora", str(TOOLCHAIN.worker))
SIZES = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 64}
IDS = torch.arange(12).reshape(2, 6)
QUERY, VALUE = (f"bert.encoder.layer.{{}}.attention.self.{name}" for name in ("query", "value"))


class Beside(nn.Module):
    """A layer with an adapter beside it, as PEFT computes it while it trains."""

    def __init__(self, layer, first, second, scale):
        super().__init__()
        self.layer, self.first, self.second, self.scale = layer, first, second, scale

    def forward(self, x):
        return self.layer(x) + self.scale * (x @ self.first.T @ self.second.T)


@pytest.fixture
def merge(tmp_path):
    """Return a function that merges an adapter into a base model as a run does, and returns the folder."""

    def merge(base, state, auto_class="AutoModelForMaskedLM", **config):
        folder = tmp_path / "job"
        base.save_pretrained(folder)
        (folder / "adapter").mkdir()
        said = {"peft_type": "LORA", "r": 4, "lora_alpha": 8, **config}
        (folder / "adapter" / "adapter_config.json").write_text(json.dumps(said))
        named = {f"base_model.model.{name}": value.contiguous() for name, value in state.items()}
        safetensors.torch.save_file(named, folder / "adapter" / "adapter_model.safetensors")
        about = {"path": str(folder), "metadata": {"transformers": {"auto_class": auto_class}}}
        notes = worker.merge({"input": about, "output": str(tmp_path / "merged"), "trust": []})
        return notes.get("refused") or tmp_path / "merged"

    return merge


def draw(*shape):
    return torch.randn(*shape) / 4


def put(model, place, layer):
    parent, _, name = place.rpartition(".")
    setattr(model.get_submodule(parent), name, layer)


@pytest.mark.parametrize(
    ("config", "scale"),
    [({}, 2.0), ({"lora_alpha": 3, "use_rslora": True}, 1.5), ({"alpha_pattern": {r"layer\.\d+.*query": 12}}, 3.0)],
)
def test_a_classifier_of_a_base_model_for_another_task(merge, config, scale):
    torch.manual_seed(0)
    base = BertForMaskedLM(BertConfig(vocab_size=100, **SIZES)).eval()
    trained = BertForSequenceClassification(BertConfig(vocab_size=100, num_labels=3, **SIZES)).eval()
    trained.bert.load_state_dict(base.bert.state_dict(), strict=False)
    trained.bert.pooler.load_state_dict({"dense.weight": draw(32, 32), "dense.bias": draw(32)})
    state = {f"classifier.{name}": value for name, value in trained.classifier.state_dict().items()}
    state |= {f"bert.pooler.{name}": value for name, value in trained.bert.pooler.state_dict().items()}
    for number in range(2):
        place, first, second = QUERY.format(number), draw(4, 32), draw(32, 4)
        state |= {f"{place}.lora_A.weight": first, f"{place}.lora_B.weight": second}
        put(trained, place, Beside(trained.get_submodule(place), first, second, scale))
    merged = merge(base, state, task_type="SEQ_CLS", **config)
    opened, said = BertForSequenceClassification.from_pretrained(merged, output_loading_info=True)
    assert not said["missing_keys"]
    with torch.no_grad():
        torch.testing.assert_close(opened.eval()(IDS).logits, trained(IDS).logits, atol=1e-6, rtol=1e-5)


def test_weights_that_are_kept_the_other_way_round(merge):
    torch.manual_seed(0)
    sizes = {"n_embd": 32, "n_layer": 1, "n_head": 2, "n_positions": 32}
    base = GPT2LMHeadModel(GPT2Config(vocab_size=100, **sizes)).eval()
    place, first, second = "transformer.h.0.attn.c_attn", draw(4, 32), draw(96, 4)
    state = {f"{place}.lora_A.weight": first, f"{place}.lora_B.weight": second}
    merged = merge(base, state, "AutoModelForCausalLM", task_type="CAUSAL_LM", fan_in_fan_out=True)
    put(base, place, Beside(base.get_submodule(place), first, second, 2.0))
    opened = GPT2LMHeadModel.from_pretrained(merged).eval()
    with torch.no_grad():
        torch.testing.assert_close(opened(IDS).logits, base(IDS).logits, atol=1e-6, rtol=1e-5)


def test_the_length_of_each_row_is_the_adapters_with_dora(merge):
    base = BertForMaskedLM(BertConfig(vocab_size=100, **SIZES)).eval()
    place, first, second, length = VALUE.format(1), draw(4, 32), draw(32, 4), torch.rand(32) + 1
    state = {f"{place}.lora_A.weight": first, f"{place}.lora_B.weight": second}
    state |= {f"{place}.lora_magnitude_vector": length}
    wanted = base.get_submodule(place).weight.detach() + 2 * second @ first
    wanted = length[:, None] * wanted / wanted.norm(dim=1, keepdim=True)
    merged = merge(base, state, use_dora=True)
    found = BertForMaskedLM.from_pretrained(merged).get_submodule(place).weight
    torch.testing.assert_close(found.detach(), wanted)


@pytest.mark.parametrize(
    ("state", "config", "says"),
    [
        ({"bert.other.lora_A.weight": (4, 32), "bert.other.lora_B.weight": (32, 4)}, {}, "no module bert.other"),
        ({f"{QUERY.format(0)}.lora_A.weight": (4, 16), f"{QUERY.format(0)}.lora_B.weight": (32, 4)}, {}, "another one"),
        ({f"{QUERY.format(0)}.lora_A.weight": (4, 32)}, {}, "no pair"),
        ({"score.weight": (2, 32)}, {}, "no weight score.weight"),
        ({f"{QUERY.format(0)}.ia3_l": (32, 1)}, {"peft_type": "IA3"}, "of the type 'IA3'"),
        ({f"{QUERY.format(0)}.lora_A.weight": (4, 32)}, {"layer_replication": [[0, 2]]}, "layer_replication"),
    ],
)
def test_what_is_no_adapter_of_this_base_model_is_refused(merge, state, config, says):
    base = BertForMaskedLM(BertConfig(vocab_size=100, **SIZES))
    said = merge(base, {name: torch.ones(shape) for name, shape in state.items()}, **config)
    assert says in str(said)


def test_a_head_that_neither_has_is_refused(merge):
    base = BertForMaskedLM(BertConfig(vocab_size=100, **SIZES))
    place = QUERY.format(0)
    state = {f"{place}.lora_A.weight": torch.ones(4, 32), f"{place}.lora_B.weight": torch.ones(32, 4)}
    assert "classifier" in str(merge(base, state, task_type="SEQ_CLS"))
