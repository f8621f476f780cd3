"""The program question-answering: SQuAD's normalisation, exact match and F1, spans and offsets, and bad input."""

from __future__ import annotations

import json

import numpy as np
import pytest
from text_models import list_ids

from kedro_hone import programs

OUTPUTS = [{"name": f"{end}_logits", "dtype": "float32", "shape": ["batch", "length"]} for end in ("start", "end")]
ROWS = [
    {"question": "ann went to", "context": "the film.  Ann went to Paris", "answers": {"text": ["paris", "to Paris"]}},
    {"question": "good film", "context": "a great film", "answers": {"text": ["great"], "answer_start": [2]}},
]


@pytest.fixture
def qa():
    return programs.load_program("question-answering")


@pytest.fixture
def run(run_program, make_model_folder, tmp_path):
    def run(rows=ROWS, **options):
        (tmp_path / "a.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
        folder = make_model_folder(config={"model_type": "bert", "max_position_embeddings": 32})
        given = {"inputs": list_ids(types=True), "outputs": OUTPUTS, "folder": folder, **options}
        return run_program("question-answering", str(tmp_path / "a.jsonl"), **given)

    return run


def choose(found, *spans):
    """Scores that are largest at the first and at the last token of each row's span."""
    shape = found["feeds"]["input_ids"].shape
    start, end = np.zeros(shape, np.float32), np.zeros(shape, np.float32)
    for row, (first, last) in enumerate(spans):
        start[row, first], end[row, last] = 5, 5
    return {"start_logits": start, "end_logits": end}


@pytest.mark.parametrize(
    ("given", "wanted", "exact", "f1"),
    [
        ("The Cat!", "cat", 1, 1),
        ("a cat sat", "the cat", 0, 2 * 1 * 0.5 / 1.5),  # 1 of 2 words is right, of 1 word wanted
        ("cat cat", "cat", 0, 2 / 3),
        ("", "", 1, 1),
        ("the", "", 1, 1),
        ("", "cat", 0, 0),
        ("dog", "cat", 0, 0),
        ("U.S.", "us", 1, 1),
        ("Saint-Denis", "saint denis", 0, 0),
    ],
)
def test_answers_are_compared_as_the_official_script_does(qa, given, wanted, exact, f1):
    assert qa.compare_exactly(given, wanted) == exact
    assert qa.compare_words(given, wanted) == pytest.approx(f1)


def test_the_best_span_is_that_of_all_pairs(qa, random):
    start, end = random.normal(size=(2, 40, 12))
    spans = np.tile(np.arange(12)[:, None], (40, 1, 2))
    spans[:, :4] = -1
    first, last = qa.find_spans(start, end, spans, longest=3, empty=False)
    for row in range(40):
        pairs = [(a, b) for a in range(4, 12) for b in range(a, min(a + 3, 12))]
        assert (first[row], last[row]) == max(pairs, key=lambda pair: start[row, pair[0]] + end[row, pair[1]])


def test_the_text_of_the_span_is_the_answer(run):
    found = run()
    assert found["targets"]["answers"].tolist() == [["paris", "to Paris"], ["great", "great"]]
    spans = found["targets"]["spans"]
    texts = [[ROWS[row]["context"][a:b] for a, b in spans[row] if a >= 0] for row in range(2)]
    assert texts == [["the", "film", ".", "Ann", "went", "to", "Paris"], ["a", "great", "film"]]
    right = choose(found, (11, 11), (5, 5))
    row = found["score"](right, choose(found, (11, 11), (5, 6)), metrics=["exact_match"])
    assert (row["metric"], row["kind"], row["source"]) == ("answer_f1", "mean", 1)
    assert row["candidate"] == pytest.approx((1 + 2 / 3) / 2)
    assert (row["others"]["exact_match"]["kind"], row["others"]["exact_match"]["lost"]) == ("proportion", 1)


def test_no_answer_is_the_first_token_where_there_may_be_none(run):
    rows = [ROWS[0], {**ROWS[1], "answers": {"text": [], "answer_start": []}}]
    found = run(rows)
    assert found["score"](choose(found, (11, 11), (0, 0)), metrics=["exact_match"])["source"] == 1
    assert found["score"](choose(found, (0, 0), (5, 5)))["source"] == 0


def test_a_context_that_was_cut_is_counted_and_its_answer_missed(run):
    found = run(length=8)
    assert found["feeds"]["input_ids"].shape == (2, 8)
    assert "1 of 2 rows are longer than 8 tokens" in found["warnings"][0]
    assert (found["targets"]["spans"][0] >= 0).all(axis=1).sum() == 2


@pytest.mark.parametrize(
    ("change", "slug", "said"),
    [
        ({"rows": [{"question": "a", "answers": ["b"]}]}, "data-unreadable", "'context'"),
        ({"rows": [{**ROWS[0], "answers": 3}]}, "data-unreadable", "row 0 has no list of answers"),
        ({"rows": [{**ROWS[0], "question": "a " * 20}], "length": 16}, "recipe-invalid", "cannot be cut to 16"),
        (
            {"outputs": [{"name": "logits", "dtype": "float32", "shape": ["batch", "length", 9]}]},
            "task-mismatch",
            "2 dim",
        ),
    ],
)
def test_bad_input_is_explained(run, change, slug, said):
    error = run(**change)["error"]
    assert (error["slug"], said in error["why"]) == (slug, True), error
