"""The program token-classification: entities as seqeval and conlleval count them, first tokens of words, bad input."""

from __future__ import annotations

import json

import numpy as np
import pandas as pd
import pytest
from text_models import WORDS, list_ids

from kedro_hone import programs

NAMES = ["O", "B-PER", "I-PER", "B-LOC", "I-LOC"]
CONFIG = {
    "model_type": "bert",
    "max_position_embeddings": 32,
    "id2label": {str(at): name for at, name in enumerate(NAMES)},
}
LOGITS = [{"name": "logits", "dtype": "float32", "shape": ["batch", "length", 5]}]
SENTENCES = [["ann", "went", "to", "paris"], ["bob", "ann"], ["the", "film"]]
TAGS = [["B-PER", "O", "O", "B-LOC"], ["B-PER", "I-PER"], ["O", "O"]]


@pytest.fixture
def run(run_program, make_model_folder, tmp_path):
    def run(sentences=SENTENCES, tags=TAGS, words=WORDS, **options):
        rows = [{"words": s, "tags": t} for s, t in zip(sentences, tags, strict=True)]
        (tmp_path / "a.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
        folder = make_model_folder(words=words, config=options.pop("config", CONFIG))
        given = {"inputs": list_ids(), "outputs": LOGITS, "folder": folder, **options}
        return run_program("token-classification", str(tmp_path / "a.jsonl"), **given)

    return run


def predict(found, tags):
    """Logits whose largest one is that of each word's tag, at the word's first token."""
    places = found["targets"]["places"]
    logits = np.zeros((*found["feeds"]["input_ids"].shape, 5), np.float32)
    for row, own in enumerate(tags):
        for word, tag in enumerate(own):
            logits[row, places[row, word], NAMES.index(tag)] = 1
    return {"logits": logits}


@pytest.mark.parametrize(
    ("tags", "entities"),
    [
        ("O B-PER I-PER O", [("PER", 1, 2)]),
        ("B-PER B-PER", [("PER", 0, 0), ("PER", 1, 1)]),
        ("I-PER I-PER O I-LOC", [("PER", 0, 1), ("LOC", 3, 3)]),  # lenient: none begins with B
        ("B-PER I-LOC", [("PER", 0, 0), ("LOC", 1, 1)]),  # another type begins another entity
        ("B-PER I-PER B-PER I-PER I-PER", [("PER", 0, 1), ("PER", 2, 4)]),
        ("S-PER B-LOC I-LOC E-LOC", [("PER", 0, 0), ("LOC", 1, 3)]),
        ("B-MISC-x I-MISC-x", [("MISC-x", 0, 1)]),
        ("O O", []),
        ("", []),
    ],
)
def test_entities_are_those_of_conlleval(tags, entities):
    assert programs.load_program("token-classification").list_entities(tags.split()) == entities


def test_the_f1_is_of_whole_entities(run):
    """Worked out by hand: 3 entities; found are PER right, LOC right, and a PER that is too short."""
    found = run()
    assert found["warnings"] == []
    assert found["targets"]["target"].tolist() == [[1, 0, 0, 3], [1, 2, -100, -100], [0, 0, -100, -100]]
    right = predict(found, TAGS)
    row = found["score"](right, predict(found, [TAGS[0], ["B-PER", "O"], TAGS[2]]), metrics=["word_accuracy"])
    assert (row["metric"], row["kind"], row["n"], row["source"]) == ("entity_f1", "bootstrap", 3, 1.0)
    assert row["candidate"] == pytest.approx(2 * 2 / (3 + 3))
    assert row["others"]["word_accuracy"]["candidate"] == pytest.approx(7 / 8)


def test_a_word_is_predicted_by_its_first_token(run):
    found = run([["goodfilm", "ann"]], [["B-LOC", "B-PER"]], words=[*WORDS, "##film"])
    assert found["feeds"]["input_ids"].shape == (1, 5)
    assert found["targets"]["places"].tolist() == [[1, 3]]


def test_words_that_were_cut_off_are_missed_and_counted(run):
    found = run([["ann", "went", "to", "paris"]], [TAGS[0]], length=4)
    assert "1 of 1 rows are longer than 4 tokens" in found["warnings"][0]
    assert found["targets"]["places"].tolist() == [[1, 2, -1, -1]]
    row = found["score"](predict(found, [["B-PER", "O"]]))
    assert row["source"] == pytest.approx(2 / 3)  # of two entities one was seen


def test_tags_that_name_no_entities_are_scored_by_words(run):
    names = ["DET", "NOUN", "VERB", "ADP", "X"]
    config = {**CONFIG, "id2label": {str(at): name for at, name in enumerate(names)}}
    found = run([["the", "film", "went"]], [[0, 1, 2]], config=config)
    row = found["score"](predict(found, [[NAMES[0], NAMES[1], NAMES[3]]]))
    assert (row["metric"], row["source"]) == ("word_accuracy", pytest.approx(2 / 3))


def test_lists_in_parquet_and_words_in_csv(run_program, make_model_folder, tmp_path):
    given = {"inputs": list_ids(), "outputs": LOGITS, "folder": make_model_folder(config=CONFIG)}
    pd.DataFrame({"tokens": SENTENCES, "ner_tags": [[1, 0, 0, 3], [1, 2], [0, 0]]}).to_parquet(tmp_path / "a.parquet")
    lines = [f"{' '.join(words)},{' '.join(tags)}\n" for words, tags in zip(SENTENCES, TAGS, strict=True)]
    (tmp_path / "a.csv").write_text("words,tags\n" + "".join(lines))
    first, second = (
        run_program("token-classification", str(tmp_path / name), **given) for name in ("a.parquet", "a.csv")
    )
    for name in ("target", "places"):
        np.testing.assert_array_equal(first["targets"][name], second["targets"][name])


@pytest.mark.parametrize(
    ("change", "slug", "said"),
    [
        ({"tags": [["B-ORG"], *TAGS[1:]], "sentences": [["ann"], *SENTENCES[1:]]}, "labels-mismatch", "'B-ORG'"),
        ({"tags": [[9, 0, 0, 0], *TAGS[1:]]}, "labels-mismatch", "the tag 9"),
        ({"tags": [["O"], *TAGS[1:]]}, "data-unreadable", "4 words and 1 tags"),
        ({"tags": [3, *TAGS[1:]]}, "data-unreadable", "not a list"),
        ({"outputs": [{"name": "logits", "dtype": "float32", "shape": ["batch", 5]}]}, "task-mismatch", "3 dimensions"),
        ({"length": 33}, "recipe-invalid", "positions for 32"),
    ],
)
def test_bad_input_is_explained(run, change, slug, said):
    error = run(**change)["error"]
    assert (error["slug"], said in error["why"]) == (slug, True), error


def test_where_no_word_has_a_tag_nothing_is_doubted():
    program = programs.load_program("token-classification")
    none = np.full((2, 3), program.NONE)
    targets = {"target": none, "places": np.full((2, 3), -1), "table_tags": np.array(NAMES)}
    assert program.find_doubt({"logits": np.zeros((2, 4, 5), np.float32)}, targets, program.OPTIONS) is None


def test_a_head_with_fewer_tags_is_refused(run):
    found = run()
    error = found["score"]({"logits": np.zeros((3, 6, 3), np.float32)})["error"]
    assert (error["slug"], "tag 3" in error["why"]) == ("labels-mismatch", True)
