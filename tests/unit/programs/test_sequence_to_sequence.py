"""The program sequence-to-sequence: decoder inputs, exact match, chrF as sacrebleu has it, and tokens back to text."""

from __future__ import annotations

import json
import sys

import numpy as np
import pytest
from text_models import WORDS

from kedro_hone import programs

INPUTS = [{"name": "input_ids", "dtype": "int64", "shape": ["batch", "length"]}]
INPUTS += [{"name": "attention_mask", "dtype": "int64", "shape": ["batch", "length"]}]
INPUTS += [{"name": "decoder_input_ids", "dtype": "int64", "shape": ["batch", "target_length"]}]
LOGITS = [{"name": "logits", "dtype": "float32", "shape": ["batch", "target_length", len(WORDS)]}]
CONFIG = {"model_type": "t5", "decoder_start_token_id": 0, "n_positions": 4}
TEXTS, SUMMARIES = ["ann went to paris", "the film", "bob"], ["paris", "good film", "bob went to rome"]


@pytest.fixture
def run(run_program, make_model_folder):
    def run(data=None, config=CONFIG, **options):
        given = {"inputs": INPUTS, "outputs": LOGITS, "folder": make_model_folder(config=config), **options}
        return run_program("sequence-to-sequence", data or {"text": TEXTS, "summary": SUMMARIES}, **given)

    return run


def predict(target, random=None, share=0.0):
    logits = np.zeros((*target.shape, len(WORDS)), np.float32)
    for row, own in enumerate(target):
        for at, token in enumerate(own):
            wrong = random is not None and random.random() < share
            logits[row, at, random.integers(5, len(WORDS)) if wrong else max(token, 0)] = 1
    return {"logits": logits}


def test_the_decoder_gets_the_target_shifted_by_one(run):
    found = run()
    target, fed = found["targets"]["target"], found["feeds"]["decoder_input_ids"]
    assert [WORDS[at] for at in target[0][:3]] == ["[CLS]", "paris", "[SEP]"]
    assert set(target[0][3:]) == {-100}
    np.testing.assert_array_equal(fed[:, 0], 0)
    np.testing.assert_array_equal(np.where(target[:, :-1] == -100, 0, target[:, :-1])[2], fed[2, 1:])
    assert fed.shape == target.shape == (3, 6)
    assert run(target_length=9)["feeds"]["decoder_input_ids"].shape == (3, 9)
    assert run(prefix="good ")["feeds"]["input_ids"].shape == (3, 7)


def test_chrf_is_that_of_sacrebleu_and_a_match_is_of_all_tokens(run, random):
    from sacrebleu.metrics import CHRF

    data = {"text": [f"a {word}" for word in WORDS[5:]], "summary": [f"{word} went to the film" for word in WORDS[5:]]}
    found = run(data)
    target = found["targets"]["target"]
    right, noisy = predict(target), predict(target, random, 0.3)
    row = found["score"](right, noisy, metrics=["chrf"])
    best = noisy["logits"].argmax(axis=-1)
    exact = [(best[at] == own)[own != -100].all() for at, own in enumerate(target)]
    assert (row["metric"], row["kind"], row["source"]) == ("exact_match", "proportion", 1)
    assert (0 < np.mean(exact) < 1, row["candidate"]) == (True, pytest.approx(np.mean(exact)))
    names = {at: word for at, word in enumerate(WORDS) if at > 4}
    texts = [" ".join(names.get(token, "") for token in best[at][own != -100]) for at, own in enumerate(target)]
    chrf = row["others"]["chrf"]
    assert (chrf["source"], chrf["kind"]) == (1, "bootstrap")
    assert chrf["candidate"] == pytest.approx(CHRF().corpus_score(texts, [data["summary"]]).score / 100)


def test_chrf_on_odd_texts_is_that_of_sacrebleu():
    from sacrebleu.metrics import CHRF

    program = programs.load_program("sequence-to-sequence")
    pairs = [
        ("", "a"),
        ("a", ""),
        ("", ""),
        ("abcabc", "abc"),
        ("Ähre  ß", "Ähre ß!"),
        ("the cat", "a dog"),
        ("x" * 9, "x"),
    ]
    rows = np.array(program.count_ngrams(*zip(*pairs, strict=True)), float)
    for row, (given, wanted) in zip(rows, pairs, strict=True):
        theirs = CHRF().corpus_score([given], [[wanted]]).score / 100
        assert program.measure_chrf(row) == pytest.approx(theirs), (given, wanted)
    theirs = CHRF().corpus_score([pair[0] for pair in pairs], [[pair[1] for pair in pairs]]).score / 100
    assert program.measure_chrf(rows.sum(axis=0)) == pytest.approx(theirs)


def test_chrf_without_sacrebleu_is_refused_before_anything_is_scored(worker, make_job, monkeypatch, tmp_path):
    monkeypatch.setitem(sys.modules, "sacrebleu", None)
    np.savez(tmp_path / "gate.npz", text=np.array(TEXTS), summary=np.array(SUMMARIES))
    for asked in ({"metric": "chrf"}, {"metrics": ["chrf"]}):
        error = worker.check(make_job("sequence-to-sequence", gate=str(tmp_path / "gate.npz"), **asked))["error"]
        assert (error["slug"], error["what"]) == ("metric-unknown", "The metric 'chrf' cannot be used.")
        assert error["hint"] == "Install what it needs: pip install 'kedro-hone[metrics]'"
    assert "error" not in worker.check(make_job("sequence-to-sequence", gate=str(tmp_path / "gate.npz")))


@pytest.mark.parametrize("kind", ["WordPiece", "ByteLevel", "Metaspace"])
def test_tokens_become_the_text_that_their_tokenizer_makes(tmp_path, kind, monkeypatch):
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
    from transformers import PreTrainedTokenizerFast

    corpus = ["the naïve cats sat here", "größe über alles, 東京 café", "a  b c"] * 4
    if kind == "WordPiece":
        tokenizer = Tokenizer(models.WordPiece(unk_token="[UNK]"))  # noqa: S106 - the word of no word
        tokenizer.pre_tokenizer, tokenizer.decoder = pre_tokenizers.Whitespace(), decoders.WordPiece(cleanup=False)
        trainer = trainers.WordPieceTrainer(vocab_size=90, special_tokens=["[PAD]", "[UNK]"], show_progress=False)
    else:
        tokenizer = Tokenizer(models.BPE(unk_token="[UNK]"))  # noqa: S106 - the word of no word
        parts = {
            "ByteLevel": (pre_tokenizers.ByteLevel, decoders.ByteLevel),
            "Metaspace": (pre_tokenizers.Metaspace, decoders.Metaspace),
        }
        tokenizer.pre_tokenizer, tokenizer.decoder = (part() for part in parts[kind])
        trainer = trainers.BpeTrainer(vocab_size=120, special_tokens=["[PAD]", "[UNK]"], show_progress=False)
    tokenizer.train_from_iterator(corpus, trainer)
    whole = PreTrainedTokenizerFast(tokenizer_object=tokenizer, pad_token="[PAD]", unk_token="[UNK]")  # noqa: S106
    pieces = __import__("sys").modules[programs.load_program("sequence-to-sequence").read_text.__module__]
    table = pieces.write_table(whole)
    for text in corpus[:3]:
        ids = whole(text)["input_ids"]
        assert pieces.read_text([-1, *ids, 0, 10**6], table) == whole.decode(ids, skip_special_tokens=True).strip()


def test_targets_that_are_cut_are_counted_by_themselves(run):
    found = run(target_length=4)
    assert found["warnings"] == ["gate (split.npz): 1 of 3 targets are longer than 4 tokens and were cut"]


def test_calibration_needs_no_targets(run):
    found = run({"text": TEXTS})
    assert "cannot be scored without" in found["error"]["why"]  # of the gate split they are needed


@pytest.mark.parametrize(
    ("change", "slug", "said"),
    [
        ({"inputs": INPUTS[:2]}, "task-mismatch", "no decoder_input_ids"),
        ({"config": {"model_type": "t5"}}, "task-mismatch", "decoder_start_token_id"),
        ({"outputs": [{**LOGITS[0], "shape": ["batch", 3]}]}, "task-mismatch", "3 dimensions"),
        (
            {"config": {**CONFIG, "model_type": "bart", "max_position_embeddings": 8}, "length": 9},
            "recipe-invalid",
            "for 8",
        ),
        ({"data": {"text": TEXTS, "summary": [1, 2, 3]}}, "data-unreadable", "is not text"),
    ],
)
def test_bad_input_is_explained(run, change, slug, said):
    error = run(**change)["error"]
    assert (error["slug"], said in error["why"]) == (slug, True), error


def test_words_that_the_model_does_not_have_are_refused(run):
    found = run()
    error = found["score"]({"logits": np.zeros((3, 6, 7), np.float32)})["error"]
    assert (error["slug"], json.dumps(error).count("vocabulary of 7")) == ("labels-mismatch", 1)
