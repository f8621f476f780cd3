"""The programs for masked and causal language models: masks by a seed, perplexity by document, and bad input."""

from __future__ import annotations

import numpy as np
import pytest
from text_models import WORDS, list_ids

LOGITS = [{"name": "logits", "dtype": "float32", "shape": ["batch", "length", len(WORDS)]}]
TEXTS = [f"{a} good {b} film went to the {c}" for a in "abc" for b in "def" for c in ("paris", "rome to the dull film")]
CONFIG = {"model_type": "bert", "max_position_embeddings": 32, "vocab_size": len(WORDS)}
MASK = WORDS.index("[MASK]")


@pytest.fixture
def run(run_program, make_model_folder):
    def run(program, texts=TEXTS, **options):
        given = {"inputs": list_ids(), "outputs": LOGITS, "folder": make_model_folder(config=CONFIG), **options}
        return run_program(program, {"text": np.array(texts)}, **given)

    return run


def guess(random, found):
    return {"logits": random.normal(size=(*found["feeds"]["input_ids"].shape, len(WORDS))).astype(np.float32)}


def cost(logits, row, place, word):
    import torch

    return float(torch.nn.functional.cross_entropy(torch.from_numpy(logits[row, place])[None], torch.tensor([word])))


def test_perplexity_is_that_of_all_tokens(run, random):
    found = run("causal-language-modeling")
    ids, mask = found["feeds"]["input_ids"], found["feeds"]["attention_mask"]
    source, other = guess(random, found), guess(random, found)
    row = found["score"](source, other, metrics=["next_token_accuracy"])
    pairs = [(at, place) for at in range(len(ids)) for place in range(mask[at].sum() - 1)]
    costs = [cost(other["logits"], at, place, ids[at, place + 1]) for at, place in pairs]
    assert (row["metric"], row["kind"], row["higher_is_better"], row["n"]) == ("perplexity", "bootstrap", False, 18)
    assert row["candidate"] == pytest.approx(np.exp(np.mean(costs)), rel=1e-5)
    right = [other["logits"][at, place].argmax() == ids[at, place + 1] for at, place in pairs]
    assert row["others"]["next_token_accuracy"]["candidate"] == pytest.approx(np.mean(right))


def test_the_interval_is_of_documents(run, worker, random):
    """The resamples draw documents: the spread of one long and many short ones is that of their costs."""
    found = run("causal-language-modeling")
    source = guess(random, found)
    better = {"logits": source["logits"] * 1.0}
    ids = found["feeds"]["input_ids"]
    better["logits"][0, np.arange(ids.shape[1] - 1), ids[0, 1:]] += 5
    row = found["score"](source, better)
    with np.load(row["replicates"]) as archive:
        drops = archive["replicates"]
    assert (drops == 0).mean() == pytest.approx((1 - 1 / 18) ** 18, abs=0.05)  # in which the first one is not drawn


def test_masks_are_drawn_by_the_seed_and_the_text(run):
    first, again, other = (run("masked-language-modeling", seed=seed) for seed in (0, 0, 1))
    ids, target = first["feeds"]["input_ids"], first["targets"]["target"]
    np.testing.assert_array_equal(ids, again["feeds"]["input_ids"])
    assert (ids != other["feeds"]["input_ids"]).any()
    np.testing.assert_array_equal(ids == MASK, target != -100)
    words = first["feeds"]["attention_mask"].sum(axis=1) - 2
    np.testing.assert_array_equal((target != -100).sum(axis=1), np.maximum(1, np.round(0.15 * words)))
    assert not np.isin(target[target >= 0], range(5)).any()  # no special token was masked
    later = run("masked-language-modeling", [*TEXTS[5:], *TEXTS[:5]])
    np.testing.assert_array_equal(later["feeds"]["input_ids"][:3], ids[5:8])  # whatever row a text is in


def test_masked_accuracy_is_of_masked_tokens(run, random):
    found = run("masked-language-modeling", share=0.4)
    target = found["targets"]["target"]
    places = np.argwhere(target != -100)
    logits = guess(random, found)
    right = np.zeros((*target.shape, len(WORDS)), np.float32)
    right[places[:, 0], places[:, 1], target[places[:, 0], places[:, 1]]] = 9
    row = found["score"]({"logits": right}, logits, metrics=["pseudo_perplexity"])
    given = [logits["logits"][at, place].argmax() == target[at, place] for at, place in places]
    costs = [cost(logits["logits"], at, place, target[at, place]) for at, place in places]
    assert (row["metric"], row["source"], row["candidate"]) == ("masked_accuracy", 1, pytest.approx(np.mean(given)))
    other = row["others"]["pseudo_perplexity"]
    assert (other["higher_is_better"], other["candidate"]) == (False, pytest.approx(np.exp(np.mean(costs)), rel=1e-5))


def test_outputs_that_are_not_finite_cost_everything_and_are_never_right(run, random):
    found = run("masked-language-modeling")
    source = guess(random, found)
    error = found["score"](source, {"logits": np.full_like(source["logits"], np.nan)}, metrics=["pseudo_perplexity"])
    assert "it is nan" in error["error"]["why"]
    assert found["score"](source, {"logits": np.full_like(source["logits"], np.nan)})["candidate"] == 0


def test_what_a_model_of_a_large_vocabulary_would_write_is_said_before(run):
    outputs = [{**LOGITS[0], "shape": ["batch", "length", 10_000_000]}]
    found = run("causal-language-modeling", outputs=outputs)
    assert "GB of disk and memory" in found["warnings"][0]


@pytest.mark.parametrize(
    ("program", "change", "slug", "said"),
    [
        ("masked-language-modeling", {"share": 0}, "recipe-invalid", "share is 0"),
        ("masked-language-modeling", {"texts": ["a", ""]}, "data-unreadable", "row 1 has no word"),
        ("causal-language-modeling", {"length": 33}, "recipe-invalid", "positions for 32"),
        (
            "causal-language-modeling",
            {"outputs": [{**LOGITS[0], "shape": ["batch", 2]}]},
            "task-mismatch",
            "3 dimensions",
        ),
    ],
)
def test_bad_input_is_explained(run, program, change, slug, said):
    error = run(program, **change)["error"]
    assert (error["slug"], said in error["why"]) == (slug, True), error


def test_a_tokenizer_without_a_mask_cannot_mask(run, make_model_folder, tmp_path):
    import json

    folder = make_model_folder(config=CONFIG)
    settings = json.loads((folder / "tokenizer_config.json").read_text())
    (folder / "tokenizer_config.json").write_text(json.dumps({k: v for k, v in settings.items() if k != "mask_token"}))
    (tmp_path / "other").mkdir()
    for path in folder.iterdir():
        (tmp_path / "other" / path.name).write_bytes(path.read_bytes())
    error = run("masked-language-modeling", folder=tmp_path / "other")["error"]
    assert (error["slug"], "mask_token" in error["why"]) == ("tokenizer-missing", True)


def test_tokens_of_another_vocabulary_are_refused(run):
    found = run("causal-language-modeling")
    shape = found["feeds"]["input_ids"].shape
    error = found["score"]({"logits": np.zeros((*shape, 9), np.float32)})["error"]
    assert (error["slug"], "vocabulary of 9" in error["why"]) == ("labels-mismatch", True)
