"""An adapter of LoRA that is merged here gives what its base model gives with the adapter beside it."""

from __future__ import annotations

import copy
import json
import sys

import pytest
import safetensors.torch
import torch
from torch import nn
from transformers import (
    BertConfig,
    BertForMaskedLM,
    BertForSequenceClassification,
    GPT2Config,
    GPT2LMHeadModel,
    LlamaConfig,
    LlamaForCausalLM,
)

from hone_runtime.worker.imports import load_file
from kedro_hone.adaptors.pytorch.adaptor import TOOLCHAIN

pytestmark = pytest.mark.toolchain

worker = load_file("hone_worker_of_lora", str(TOOLCHAIN.worker))
SIZES = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 64}
IDS = torch.arange(12).reshape(2, 6)
EMBEDDING = "model.embed_tokens"
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


def make_llama(*, tied):
    torch.manual_seed(0)
    sizes = SIZES | {"num_key_value_heads": 2, "tie_word_embeddings": tied}
    return LlamaForCausalLM(LlamaConfig(vocab_size=100, **sizes)).eval()


def make_gpt2():
    torch.manual_seed(0)
    sizes = {"n_embd": 32, "n_layer": 1, "n_head": 2, "n_positions": 32}
    return GPT2LMHeadModel(GPT2Config(vocab_size=100, **sizes)).eval()


def draw_pair(model, place):
    """Return a pair of matrices for a linear layer by its place, as an adapter's file has them."""
    height, width = model.get_submodule(place).weight.shape
    turned = type(model.get_submodule(place)).__name__ == "Conv1D"
    width, height = (height, width) if turned else (width, height)
    return {f"{place}.lora_A.weight": draw(4, width), f"{place}.lora_B.weight": draw(height, 4)}


def add_pair(model, state, place):
    """Add the pair of a linear layer to its weight, by the definition."""
    change = 2 * state[f"{place}.lora_B.weight"] @ state[f"{place}.lora_A.weight"]
    layer = model.get_submodule(place)
    layer.weight = nn.Parameter(layer.weight.detach() + (change.T if type(layer).__name__ == "Conv1D" else change))


def assert_same(folder, wanted):
    """Open what was written, which lacks no weight, and compare what it computes."""
    opened, said = type(wanted).from_pretrained(folder, output_loading_info=True)
    assert not said["missing_keys"]
    with torch.no_grad():
        torch.testing.assert_close(opened.eval()(IDS).logits, wanted.eval()(IDS).logits, atol=1e-5, rtol=1e-5)
    return opened


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
        ({f"{QUERY.format(0)}.lora_A.weight": (4, 32)}, {}, "not a pair"),
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


@pytest.mark.parametrize("dora", [False, True])
def test_a_pair_on_an_embedding_is_added_to_the_weight_that_is_saved_beside_it(merge, dora):
    base = make_llama(tied=False)
    weight = base.get_submodule(EMBEDDING).weight.detach().clone()
    first, second = draw(4, 100), draw(32, 4)
    state = {f"{EMBEDDING}.lora_embedding_A": first, f"{EMBEDDING}.lora_embedding_B": second}
    state |= {f"{EMBEDDING}.base_layer.weight": weight}
    wanted, made = copy.deepcopy(base), weight + 2 * (second @ first).T
    if dora:
        length = torch.rand(32) + 1
        state |= {f"{EMBEDDING}.lora_magnitude_vector": length}
        made = length * made / made.norm(dim=0)
    wanted.get_submodule(EMBEDDING).weight = nn.Parameter(made)
    merged = merge(base, state, "AutoModelForCausalLM", task_type="CAUSAL_LM", use_dora=dora)
    assert_same(merged, wanted)


def test_a_pair_on_the_output_embedding_is_added_to_the_weight_that_is_saved_beside_it(merge):
    base = make_llama(tied=False)
    state = draw_pair(base, "lm_head")
    wanted = copy.deepcopy(base)
    add_pair(wanted, state, "lm_head")
    state |= {"lm_head.base_layer.weight": base.lm_head.weight.detach().clone()}
    assert_same(merge(base, state, "AutoModelForCausalLM", task_type="CAUSAL_LM"), wanted)


@pytest.mark.parametrize(
    ("make", "pair", "saved", "untied"),
    [
        (lambda: make_llama(tied=True), "model.layers.0.self_attn.q_proj", ["lm_head"], True),
        (lambda: make_llama(tied=True), "model.layers.0.self_attn.q_proj", [EMBEDDING], True),
        (lambda: make_llama(tied=True), "model.layers.0.self_attn.q_proj", ["lm_head", EMBEDDING], True),
        (lambda: make_llama(tied=True), "model.layers.0.self_attn.q_proj", [], False),
        (make_gpt2, "transformer.h.0.attn.c_attn", ["lm_head"], True),
        (make_gpt2, "transformer.h.0.attn.c_attn", ["transformer.wte"], True),
    ],
)
def test_a_layer_that_the_adapter_has_whole_leaves_the_one_that_it_was_tied_to(merge, make, pair, saved, untied):
    base = make()
    state, wanted = draw_pair(base, pair), copy.deepcopy(base)
    for place in saved:
        value = draw(100, 32)
        state |= {f"{place}.weight": value}
        wanted.get_submodule(place).weight = nn.Parameter(value)
    add_pair(wanted, state, pair)
    opened = assert_same(merge(base, state, "AutoModelForCausalLM", task_type="CAUSAL_LM"), wanted)
    assert opened.config.tie_word_embeddings is not untied


def test_layers_that_the_adapter_has_whole_and_alike_stay_tied(merge):
    base, value = make_llama(tied=True), draw(100, 32)
    state = draw_pair(base, "model.layers.0.self_attn.q_proj")
    wanted = copy.deepcopy(base)
    wanted.lm_head.weight = wanted.get_submodule(EMBEDDING).weight = nn.Parameter(value)
    add_pair(wanted, state, "model.layers.0.self_attn.q_proj")
    state |= {"lm_head.weight": value, f"{EMBEDDING}.weight": value.clone()}
    opened = assert_same(merge(base, state, "AutoModelForCausalLM", task_type="CAUSAL_LM"), wanted)
    assert opened.config.tie_word_embeddings


def test_the_bias_of_a_masked_model_is_untied_with_its_weight(merge):
    torch.manual_seed(0)
    base = BertForMaskedLM(BertConfig(vocab_size=100, **SIZES)).eval()
    base.cls.predictions.bias.data.normal_()
    state, wanted, value = draw_pair(base, QUERY.format(0)), copy.deepcopy(base), draw(100, 32)
    wanted.bert.embeddings.word_embeddings.weight = nn.Parameter(value)
    add_pair(wanted, state, QUERY.format(0))
    state |= {"bert.embeddings.word_embeddings.weight": value}
    assert_same(merge(base, state), wanted)


@pytest.mark.parametrize("place", [EMBEDDING, "lm_head"])
def test_a_pair_on_a_tied_weight_is_refused(merge, place):
    base = make_llama(tied=True)
    names = ("embedding_A", "embedding_B") if place == EMBEDDING else ("A.weight", "B.weight")
    shapes = [(4, 100), (32, 4)] if place == EMBEDDING else [(4, 32), (100, 4)]
    state = {f"{place}.lora_{name}": draw(*shape) for name, shape in zip(names, shapes, strict=True)}
    state |= {f"{place}.base_layer.weight": base.lm_head.weight.detach().clone()}
    said = merge(base, state, "AutoModelForCausalLM", task_type="CAUSAL_LM")
    assert "is tied to" in str(said)


@pytest.mark.parametrize("init", [True, False, "gaussian", "orthogonal"])
def test_a_start_that_leaves_the_base_model_as_it_is_is_merged(merge, init):
    base = make_llama(tied=True)
    state = draw_pair(base, "model.layers.1.self_attn.v_proj")
    wanted = copy.deepcopy(base)
    add_pair(wanted, state, "model.layers.1.self_attn.v_proj")
    # A start of another kind is what alone reads these, so they change nothing here.
    unread = {"corda_config": {"cache_file": "x"}, "eva_config": {"rho": 2.0}, "qalora_group_size": 16}
    unread |= {"megatron_core": "megatron.core", "lora_dropout": 0.1, "runtime_config": {"ephemeral_gpu_offload": True}}
    unread |= {"a_later_option": None, "peft_version": "9.0.0", "inference_mode": True}
    merged = merge(base, state, "AutoModelForCausalLM", init_lora_weights=init, **unread)
    assert_same(merged, wanted)


@pytest.mark.parametrize(
    ("config", "says"),
    [
        *(
            ({"init_lora_weights": init}, f"init_lora_weights: {init!r}")
            for init in ("pissa", "pissa_niter_4", "olora", "corda", "loftq", "eva", "lora_ga", "mica", "later", None)
        ),
        ({"use_qalora": True}, "use_qalora"),
        ({"lora_bias": True}, "lora_bias"),
        ({"layer_replication": [[0, 2]]}, "layer_replication"),
        ({"target_parameters": ["experts.w"]}, "target_parameters"),
        ({"trainable_token_indices": [1]}, "trainable_token_indices"),
        ({"megatron_config": {"tensor": 1}}, "megatron_config"),
        ({"alora_invocation_tokens": [1]}, "alora_invocation_tokens"),
        ({"arrow_config": {"top_k": 3}}, "arrow_config"),
        ({"velora_config": {"scale": 1.0}}, "velora_config"),
        ({"monteclora_config": {"samples": 1}}, "monteclora_config"),
        ({"kasa_config": {"beta": 1}}, "kasa_config"),
        ({"use_bdlora": {"nblocks": 2}}, "use_bdlora"),
        ({"ensure_weight_tying": True}, "ensure_weight_tying"),
        ({"a_later_option": 1}, "a_later_option"),
        ({"use_dora": True}, "use_dora"),
        ({"bias": "later"}, "bias"),
    ],
)
def test_an_option_that_is_not_merged_here_is_refused_by_its_name(merge, config, says):
    base = make_llama(tied=True)
    state = draw_pair(base, "model.layers.0.self_attn.q_proj")
    assert says in str(merge(base, state, "AutoModelForCausalLM", **config))


def test_all_biases_of_a_classifier_are_the_adapters(merge):
    torch.manual_seed(0)
    base = BertForSequenceClassification(BertConfig(vocab_size=100, num_labels=3, **SIZES)).eval()
    wanted, place = copy.deepcopy(base), QUERY.format(0)
    state = draw_pair(base, place)
    add_pair(wanted, state, place)
    for name, value in wanted.state_dict().items():
        if name.endswith(".bias") or name.startswith("classifier."):
            value.normal_()
            state[name.replace(f"{place}.", f"{place}.base_layer.")] = value.clone()
    state |= {"classifier.original_module.bias": base.classifier.bias.detach().clone()}
    state |= {"classifier.modules_to_save.bias": wanted.classifier.bias.detach().clone()}
    assert_same(merge(base, state, task_type="SEQ_CLS", bias="all"), wanted)


def test_two_values_of_one_weight_are_refused(merge):
    base = make_llama(tied=False)
    state = draw_pair(base, "model.layers.0.self_attn.q_proj")
    state |= {"lm_head.weight": draw(100, 32), "lm_head.modules_to_save.weight": draw(100, 32)}
    assert "twice" in str(merge(base, state, "AutoModelForCausalLM"))


def test_a_pair_that_changes_nothing_is_merged(merge):
    base = make_llama(tied=True)
    state = draw_pair(base, "model.layers.0.self_attn.q_proj")
    base.get_submodule("model.layers.0.self_attn.q_proj").weight.data[0] = -0.0
    state["model.layers.0.self_attn.q_proj.lora_B.weight"].zero_()
    assert_same(merge(base, state, "AutoModelForCausalLM"), base)


@pytest.mark.parametrize("name", ["model.layers.0.self_attn.q_proj.lora_B.weight", "lm_head.weight"])
def test_what_is_no_number_is_refused(merge, name):
    base = make_llama(tied=False)
    state = draw_pair(base, "model.layers.0.self_attn.q_proj") | {"lm_head.weight": draw(100, 32)}
    state[name][0, 0] = float("nan")
    assert "not finite" in str(merge(base, state, "AutoModelForCausalLM"))


@pytest.mark.parametrize(("changed", "says"), [(set(), "was not to change"), ({"lm_head.weight"}, "was to change")])
def test_other_changes_than_were_meant_are_an_error(changed, says):
    lora = sys.modules[worker.merge.__module__]
    base = make_llama(tied=False)
    before = lora.digest(base)
    base.get_submodule(EMBEDDING).weight.data.add_(1)
    meant = changed | ({f"{EMBEDDING}.weight"} if changed else set())
    with pytest.raises(RuntimeError, match=says):
        lora.compare(before, lora.digest(base), meant)
