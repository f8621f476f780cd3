"""The program text-classification: texts and pairs, labels by number and name, several labels, and bad input."""

from __future__ import annotations

import json

import numpy as np
import pandas as pd
import pytest
from text_models import WORDS, list_ids

LOGITS = [{"name": "logits", "dtype": "float32", "shape": ["batch", "classes"]}]
CONFIG = {
    "architectures": ["BertForSequenceClassification"],
    "model_type": "bert",
    "max_position_embeddings": 16,
    "id2label": {"0": "bad", "1": "good"},
}
TEXTS = ["good film", "the dull dull film", "great"]


@pytest.fixture
def run(run_program, make_model_folder):
    def run(data, config=None, **options):
        given = {
            "inputs": list_ids(types=True),
            "outputs": LOGITS,
            "folder": make_model_folder(config=config or CONFIG),
        }
        return run_program("text-classification", data, **{**given, **options})

    return run


def test_texts_become_tokens_and_names_become_numbers(run):
    found = run({"text": TEXTS, "label": ["good", "bad", "good"]})
    assert (found["splits"], found["warnings"]) == ({"gate": {"n": 3}}, [])
    ids = found["feeds"]["input_ids"]
    assert ids.shape == (3, 6)
    assert [WORDS[at] for at in ids[0]] == ["[CLS]", "good", "film", "[SEP]", "[PAD]", "[PAD]"]
    np.testing.assert_array_equal(found["feeds"]["attention_mask"].sum(axis=1), [4, 6, 3])
    np.testing.assert_array_equal(found["targets"]["target"], [1, 0, 1])

    row = found["score"](
        {"logits": np.float32([[0, 1], [1, 0], [0, 1]])}, {"logits": np.float32([[0, 1], [0, 1], [0, 1]])}
    )
    assert (row["metric"], row["kind"], row["source"], row["lost"]) == ("accuracy", "proportion", 1.0, 1)


def test_a_split_without_rows_is_empty(run):
    error = run({"text": np.array([], dtype=np.str_), "label": np.array([], dtype=np.int64)})["error"]
    assert error["slug"] == "data-empty"


def test_labels_that_are_numbers_are_the_heads_own(run):
    found = run({"text": TEXTS, "label": [1, 0, 1]})
    np.testing.assert_array_equal(found["targets"]["target"], [1, 0, 1])


def test_pairs_have_both_texts_and_their_kinds(run):
    found = run({"sentence1": ["good", "a b"], "sentence2": ["bad film", "c"], "label": [0, 1]})
    np.testing.assert_array_equal(found["feeds"]["token_type_ids"][0], [0, 0, 0, 1, 1, 1])
    assert [WORDS[at] for at in found["feeds"]["input_ids"][1]] == ["[CLS]", "a", "b", "[SEP]", "c", "[SEP]"]


@pytest.mark.parametrize("suffix", ["jsonl", "parquet", "csv"])
def test_files_of_text(run, tmp_path, suffix):
    frame = pd.DataFrame({"text": TEXTS, "label": ["good", "bad", "good"]})
    path = tmp_path / f"a.{suffix}"
    write = {"jsonl": lambda: frame.to_json(path, orient="records", lines=True)}
    write |= {"parquet": lambda: frame.to_parquet(path), "csv": lambda: frame.to_csv(path, index=False)}
    write[suffix]()
    assert run(str(path))["feeds"]["input_ids"].shape == (3, 6)


def test_a_length_pads_and_cuts_with_a_warning_that_counts(run):
    found = run({"text": TEXTS, "label": [1, 0, 1]}, length=5)
    assert found["feeds"]["input_ids"].shape == (3, 5)
    assert found["warnings"] == ["gate (split.npz): 1 of 3 rows are longer than 5 tokens and were cut"]
    assert WORDS[found["feeds"]["input_ids"][1, -1]] == "[SEP]"
    assert run({"text": TEXTS, "label": [1, 0, 1]}, length=12)["feeds"]["input_ids"].shape == (3, 12)


def test_rows_beyond_the_models_positions_are_cut_with_a_warning(run):
    found = run({"text": ["a " * 40, "b"], "label": [1, 0]})
    assert found["feeds"]["input_ids"].shape == (2, 16)
    assert "1 of 2 rows are longer than 16 tokens" in found["warnings"][0]


def test_an_input_of_a_fixed_length_is_padded_to_it(run):
    found = run({"text": TEXTS, "label": [1, 0, 1]}, inputs=list_ids(9))
    assert {name: array.shape for name, array in found["feeds"].items()} == {
        "input_ids": (3, 9),
        "attention_mask": (3, 9),
    }


@pytest.mark.parametrize(
    ("change", "slug", "said"),
    [
        ({"length": 17}, "recipe-invalid", "positions for 16 tokens"),
        ({"length": 0}, "recipe-invalid", "number of tokens"),
        ({"length": 8, "inputs": list_ids(9)}, "recipe-invalid", "has 9 tokens"),
        ({"tokenizer": "here"}, "recipe-invalid", "absolute path"),
        (
            {"label": ["good", "bad", "great"]},
            "labels-mismatch",
            "label 'great' is none of those that id2label in config.json names: 'bad', 'good'",
        ),
        (
            {"label": ["good", "bad", "great"], "classes": ["bad", "good"]},
            "labels-mismatch",
            "label 'great' is none of those that the option classes names: 'bad', 'good'",
        ),
        ({"label": [0, 1, 2]}, "labels-mismatch", "label 2"),
        ({"label": [0, -1, 1]}, "labels-mismatch", "label -1"),
        ({"config": {**CONFIG, "problem_type": "multi_label_classification"}}, "recipe-invalid", "multi_label: true"),
        (
            {"outputs": [{"name": "logits", "dtype": "float32", "shape": ["batch", "length", 24]}]},
            "task-mismatch",
            "2 dim",
        ),
        ({"inputs": [{"name": "pixels", "dtype": "float32", "shape": ["batch", 3]}]}, "task-mismatch", "'pixels'"),
        ({"text": [1, 2, 3]}, "data-unreadable", "is not text"),
        ({"arrays": {"text": "none"}}, "data-unreadable", "'none'"),
    ],
)
def test_bad_input_is_explained(run, change, slug, said):
    data = {"text": TEXTS, "label": [1, 0, 1]}
    for name in data.keys() & change.keys():
        data[name] = change.pop(name)
    error = run(data, **change)["error"]
    assert (error["slug"], said in error["why"]) == (slug, True), error


@pytest.mark.parametrize(
    ("program", "head", "metadata", "own"),
    [
        ("text-classification", "BertForMaskedLM", None, "masked-language-modeling"),
        ("token-classification", "BertForSequenceClassification", None, "text-classification"),
        ("masked-language-modeling", "GPT2LMHeadModel", None, "causal-language-modeling"),
        ("causal-language-modeling", "BertForMaskedLM", None, "masked-language-modeling"),
        ("speech-recognition", "WhisperForConditionalGeneration", None, "sequence-to-sequence"),
        ("image-classification", "Wav2Vec2ForCTC", None, "speech-recognition"),
        ("text-classification", "BertForSequenceClassification", "BertForMaskedLM", "masked-language-modeling"),
        ("sentence-embedding", "BertModel", "BertForTokenClassification", "token-classification"),
    ],
)
def test_a_model_of_another_task_is_refused_by_its_class(  # noqa: PLR0917 - fixtures
    worker, make_job, save, make_model_folder, program, head, metadata, own
):
    data = {"text": np.array(["a"]), "x": np.zeros((1, 3, 4, 4)), "label": np.array([0])}
    job = make_job(program, outputs=[], splits={"gate": {"path": save("a.npz", **data)}})
    job["input"]["path"] = str(make_model_folder(config={**CONFIG, "architectures": [head]}))
    job["input"]["metadata"] = {"transformers": {"class": metadata}} if metadata else {}
    error = worker.read(job)["error"]
    assert (error["slug"], f"is a {metadata or head}, which is for {own}" in error["why"]) == ("task-mismatch", True)


def test_a_source_without_a_tokenizer_is_refused(run_program, make_model_folder):
    """Of config.json alone transformers makes a tokenizer that knows no word, without a word of warning."""
    folder = make_model_folder(config=CONFIG, tokenizer=False)
    given = {"inputs": list_ids(), "outputs": LOGITS, "folder": folder}
    error = run_program("text-classification", {"text": TEXTS, "label": [1, 0, 1]}, **given)["error"]
    assert (error["slug"], "tokenizer.json" in error["why"]) == ("tokenizer-missing", True)
    (folder / "tokenizer.json").write_text("{}")
    error = run_program("text-classification", {"text": TEXTS, "label": [1, 0, 1]}, **given)["error"]
    assert (error["slug"], "cannot be opened" in error["why"]) == ("tokenizer-missing", True)


@pytest.mark.attack(
    what="a regular expression in tokenizer.json that takes exponential time, for a run that hangs or ends unexplained",
    who="registry",
    stopped_by="the tokenizers library gives up after some million steps, and its panic becomes an error with a reason",
)
def test_a_tokenizer_that_fails_on_a_text_is_told(run_program, make_model_folder):
    folder = make_model_folder(config=CONFIG)
    tokenizer = json.loads((folder / "tokenizer.json").read_text())
    pattern = {"type": "Split", "pattern": {"Regex": "^(a+)+$"}, "behavior": "Removed", "invert": False}
    (folder / "tokenizer.json").write_text(json.dumps(tokenizer | {"pre_tokenizer": pattern}))
    given = {"inputs": list_ids(), "outputs": LOGITS, "folder": folder}
    error = run_program("text-classification", {"text": ["a" * 40 + "!"], "label": [1]}, **given)["error"]
    assert (error["slug"], "retry-limit" in error["why"]) == ("data-unreadable", True)


def test_a_tokenizer_may_be_in_a_folder_of_its_own(run_program, make_model_folder, tmp_path):
    (tmp_path / "empty").mkdir()
    folder = make_model_folder(config=CONFIG)
    given = {"inputs": list_ids(), "outputs": LOGITS, "folder": tmp_path / "empty", "tokenizer": str(folder)}
    found = run_program("text-classification", {"text": TEXTS, "label": ["good", "bad", "good"]}, **given)
    np.testing.assert_array_equal(found["targets"]["target"], [1, 0, 1])


def test_rows_with_several_labels_are_scored_by_f1(run, random):
    from sklearn.metrics import f1_score

    config = {**CONFIG, "id2label": {"0": "x", "1": "y", "2": "z"}, "problem_type": "multi_label_classification"}
    texts = [f"a {'b ' * (at % 5)}{WORDS[5 + at % 6]}" for at in range(40)]
    labels = random.integers(0, 2, (40, 3))
    found = run({"text": texts, "label": labels}, config, multi_label=True)
    np.testing.assert_array_equal(found["targets"]["target"], labels)
    logits, worse = (np.float32(labels * 2 - 1 + random.normal(size=(40, 3)) * noise) for noise in (0.6, 1.5))
    row = found["score"]({"logits": logits}, {"logits": worse})
    assert (row["metric"], row["kind"]) == ("f1_micro", "bootstrap")
    assert row["source"] == pytest.approx(f1_score(labels, logits >= 0, average="micro"))
    assert row["candidate"] == pytest.approx(f1_score(labels, worse >= 0, average="micro"))


def test_several_labels_as_lists_of_names(run, tmp_path):
    rows = [{"text": "a", "label": ["good"]}, {"text": "b", "label": []}, {"text": "c", "label": ["bad", "good"]}]
    (tmp_path / "a.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    found = run(str(tmp_path / "a.jsonl"), multi_label=True)
    np.testing.assert_array_equal(found["targets"]["target"], [[0, 1], [0, 0], [1, 1]])


def test_a_row_is_found_in_another_split_whatever_it_is_padded_to(worker, make_job, save, make_model_folder):
    paths = {
        "calibration": save("a.npz", text=["good film", "a"]),
        "gate": save("b.npz", text=[*TEXTS], label=[1, 0, 1]),
    }
    splits = {name: {"path": path} for name, path in paths.items()}
    job = make_job("text-classification", inputs=list_ids(types=True), outputs=LOGITS, splits=splits)
    job["input"]["path"] = str(make_model_folder(config=CONFIG))
    assert worker.read(job)["overlaps"] == [{"splits": ["calibration", "gate"], "count": 1, "example_rows": [0, 0]}]


def test_rows_are_padded_on_the_side_of_the_models_own_tokenizer(run_program, make_model_folder):
    folder = make_model_folder(config=CONFIG)
    path = folder / "tokenizer_config.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "padding_side": "left"}))
    positions = {"name": "position_ids", "dtype": "int64", "shape": ["batch", "length"]}
    data = {"text": ["good film", "good"], "label": ["good", "bad"]}
    found = run_program("text-classification", data, inputs=[*list_ids(), positions], outputs=LOGITS, folder=folder)
    assert found["feeds"]["attention_mask"].tolist() == [[1, 1, 1, 1], [0, 1, 1, 1]]
    assert found["feeds"]["input_ids"][1, 1:].tolist() == [
        *found["feeds"]["input_ids"][0, :2],
        found["feeds"]["input_ids"][0, 3],
    ]
    assert found["feeds"]["position_ids"].tolist() == [[0, 1, 2, 3], [0, 0, 1, 2]]
