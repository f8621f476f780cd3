"""What strangers write of their models, read by a user or by ``kedro run`` itself: in bounded time and memory."""

from __future__ import annotations

import time

import pytest

from kedro_hone.core.errors import HoneError


@pytest.mark.attack(
    what="a configuration of a Transformers winner with billions of classes or layers, which transformers lists",
    who="registry",
    stopped_by="what a configuration counts up to is bounded before transformers reads it",
)
@pytest.mark.toolchain
@pytest.mark.parametrize(
    "values",
    [
        {"model_type": "bert", "num_labels": 10**12},
        {"model_type": "gemma2", "num_hidden_layers": 10**12},
        {"model_type": "gpt2", "n_layer": 10**12},
        {"model_type": "gpt_neo", "attention_types": [[["global"], 10**12]]},
        {"model_type": "encoder-decoder", "encoder": {"model_type": "bert", "num_labels": 1e12}},
    ],
)
def test_a_configuration_that_counts_without_end(values):
    pytest.importorskip("transformers")
    from kedro_hone.learner.pretrained import make_config

    with pytest.raises(HoneError, match="counts up to 1e\\+12") as caught:
        make_config(values)
    assert caught.value.slug == "model-corrupt"


@pytest.mark.toolchain
def test_a_configuration_with_many_classes_is_read():
    pytest.importorskip("transformers")
    from kedro_hone.learner.pretrained import make_config

    config = make_config({"model_type": "bert", "num_labels": 1000, "layer_norm_eps": 1e-12, "vocab_size": 250_002})
    assert (config.num_labels, config.vocab_size) == (1000, 250_002)


BEGIN = "<!-- kedro-hone: begin -->"
MERGED = "".join(f"a{one}: &a{one}\n  <<: [{', '.join([f'*a{one - 1}'] * 10)}]\n" for one in range(1, 9))


@pytest.mark.attack(
    what="a model card, to which a winner's is added, whose metadata grow or whose comments never end",
    who="registry",
    stopped_by="metadata with aliases or endless numbers are not read, and comments are found in one pass",
)
@pytest.mark.parametrize(
    "known",
    [
        f"---\na0: &a0 {{x: 1}}\n{MERGED}---\nhi",
        f"---\nx: 1{':59' * 160_000}\n---\nhi",
        f"---\nx: {'[' * 2000}\n---\nhi",
        "---\ntags: [[1], {a: 2}, b]\n---\nhi",
        f"hi{BEGIN * 40_000}",
    ],
    ids=["merged", "base-60", "brackets", "tags", "comments"],
)
def test_a_card_of_a_stranger(known):
    pytest.importorskip("huggingface_hub")
    from kedro_hone.adaptors.registries.huggingface.card import _read, _remove_sections

    begun = time.process_time()
    card = _read(known)
    assert _remove_sections(card.text).strip().startswith("hi")
    assert len(card.data.to_yaml()) < 1000
    assert time.process_time() - begun < 5
