"""The program speech-recognition: CTC, the word error rate as jiwer has it, sounds of several kinds, and bad input."""

from __future__ import annotations

import io
import json
import wave

import numpy as np
import pyarrow as pa
import pytest

from kedro_hone import programs

LETTERS = ["<pad>", "<s>", "</s>", "<unk>", "|", *"ABCDEFGHIJKLMNOPQRSTUVWXYZ"]
INPUTS = [{"name": "input_values", "dtype": "float32", "shape": ["batch", "samples"]}]
LOGITS = [{"name": "logits", "dtype": "float32", "shape": ["batch", "frames", len(LETTERS)]}]
CONFIG = {
    "model_type": "wav2vec2",
    "conv_kernel": [10, 4],
    "conv_stride": [5, 2],
    "conv_dim": [4, 4],
    "vocab_size": len(LETTERS),
}
SAID = ["ANN WENT TO PARIS", "GOOD FILM", "BOB"]


@pytest.fixture
def folder(make_model_folder):
    extractor = {"feature_extractor_type": "Wav2Vec2FeatureExtractor", "sampling_rate": 100, "do_normalize": True}
    settings = {"tokenizer_class": "Wav2Vec2CTCTokenizer", "word_delimiter_token": "|"}
    settings |= {"pad_token": "<pad>", "bos_token": "<s>", "eos_token": "</s>", "unk_token": "<unk>"}
    vocabulary = {letter: number for number, letter in enumerate(LETTERS)}
    files = {"config": CONFIG, "preprocessor_config": {**extractor, "feature_size": 1}, "vocab": vocabulary}
    return make_model_folder(tokenizer=False, tokenizer_config=settings, **files)


@pytest.fixture
def sounds(random):
    return [random.normal(size=size).astype(np.float32) for size in (620, 400, 240)]


@pytest.fixture
def run(run_program, folder, tmp_path):
    def run(sounds, said=SAID, **options):
        rows = [{"audio": np.asarray(s).tolist(), "text": text} for s, text in zip(sounds, said, strict=True)]
        (tmp_path / "a.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
        given = {"inputs": INPUTS, "outputs": LOGITS, "folder": folder, **options}
        return run_program("speech-recognition", str(tmp_path / "a.jsonl"), **given)

    return run


def say(texts, frames):
    """Logits whose largest ones are the letters, each twice, with a blank between them; then blanks."""
    logits = np.zeros((len(texts), frames, len(LETTERS)), np.float32)
    logits[..., 0] = 0.5
    for row, text in enumerate(texts):
        letters = [LETTERS.index("|" if letter == " " else letter) for letter in text]
        for at, letter in enumerate(letters):
            logits[row, 3 * at : 3 * at + 2, letter] = 1
    return {"logits": logits}


def test_the_word_error_rate_is_that_of_jiwer(run, sounds):
    import jiwer

    found = run(sounds)
    frames = [int(number) for number in found["targets"]["frames"]]
    assert frames == [((size - 10) // 5 + 1 - 4) // 2 + 1 for size in (620, 400, 240)]
    np.testing.assert_allclose(found["feeds"]["input_values"][2][240:], 0)
    assert found["feeds"]["input_values"][0].std() == pytest.approx(1, abs=0.01)  # the processor normalized each row
    given = ["ANN WENT TOO PARIS", "GOOD", "BOB BOB"]
    source, other = say(SAID, 60), say(given, 60)
    for logits in (source["logits"], other["logits"]):
        logits[2, frames[2] :, LETTERS.index("Z")] = 9  # of padding, which does not count
    row = found["score"](source, other, metrics=["character_error_rate"])
    assert (row["metric"], row["kind"], row["n"], row["source"]) == ("word_error_rate", "bootstrap", 3, 0)
    assert row["candidate"] == pytest.approx(jiwer.wer(SAID, given))
    assert row["others"]["character_error_rate"]["candidate"] == pytest.approx(jiwer.cer(SAID, given))


@pytest.mark.parametrize("case", [None, "lower", "upper"])
def test_white_space_around_a_reference_is_no_error(run, sounds, case):
    found = run(sounds, said=[f" {text}\n" for text in SAID], case=case)
    row = found["score"](say(SAID, 60), say(SAID, 60), metrics=["character_error_rate"])
    assert row["others"]["character_error_rate"]["source"] == 0


def test_edits_are_those_of_jiwer(random):
    import jiwer

    count = programs.load_program("speech-recognition").count_edits
    for _ in range(200):
        given, wanted = (random.choice(list("abc"), size=random.integers(low, 9)) for low in (0, 1))
        found = jiwer.process_words(" ".join(wanted), " ".join(given))
        assert count(list(given), list(wanted)) == found.substitutions + found.deletions + found.insertions


def test_text_is_what_the_tokenizer_decodes(run, sounds, folder, random):
    """Random letters, decoded by transformers too: repeats are one, blanks none, and bars are spaces."""
    from transformers import AutoTokenizer

    program = programs.load_program("speech-recognition")
    found = run(sounds)
    ids = random.choice([0, 0, 4, *range(5, 31)], size=(3, 200))
    ids = np.repeat(ids, 2, axis=1)
    targets = {**found["targets"], "frames": np.full(3, 400)}
    tokenizer = AutoTokenizer.from_pretrained(str(folder), local_files_only=True)
    wanted = [" ".join(text.split()) for text in tokenizer.batch_decode(ids)]
    given = program.read_transcripts(ids, targets, program.OPTIONS)
    assert [" ".join(text.split()) for text in given] == wanted


def test_case_is_folded_where_asked(run, sounds):
    said = [text.lower() for text in SAID]
    assert run(sounds, said)["score"](say(SAID, 60))["source"] == 1
    assert "option case" in run(sounds, said)["score"](say(SAID, 60))["doubt"]
    assert run(sounds, said, case="lower")["score"](say([text[:12] for text in SAID], 60))["source"] < 0.5


def test_sounds_in_a_folder_of_datasets(run_program, folder, tmp_path, random):
    contents = []
    for size in (200, 300):
        file = io.BytesIO()
        with wave.open(file, "wb") as sound:
            sound.setnchannels(1), sound.setsampwidth(2), sound.setframerate(100)
            sound.writeframes(random.integers(-9999, 9999, size).astype("<i2").tobytes())
        contents.append({"bytes": file.getvalue(), "path": None})
    table = pa.table({"audio": contents, "text": ["ANN", "BOB"]})
    (tmp_path / "d").mkdir()
    with (
        pa.OSFile(str(tmp_path / "d" / "data-00000-of-00001.arrow"), "wb") as sink,
        pa.ipc.new_stream(sink, table.schema) as out,
    ):
        out.write_table(table)
    (tmp_path / "d" / "state.json").write_text(json.dumps({"_data_files": [{"filename": "data-00000-of-00001.arrow"}]}))
    given = {"inputs": INPUTS, "outputs": LOGITS, "folder": folder}
    assert run_program("speech-recognition", str(tmp_path / "d"), **given)["feeds"]["input_values"].shape == (2, 300)


@pytest.mark.parametrize(
    ("change", "slug", "said"),
    [
        ({"rate": 8000}, "recipe-invalid", "takes 100"),
        ({"case": "none"}, "recipe-invalid", "lower and upper"),
        ({"sounds": [["a"], [1.0], [2.0]]}, "data-unreadable", "row 0 holds no samples"),
        ({"sounds": [[], [1.0], [2.0]]}, "data-unreadable", "row 0"),
        ({"outputs": [{**LOGITS[0], "shape": ["batch", 3]}]}, "task-mismatch", "3 dimensions"),
        ({"inputs": [{**INPUTS[0], "name": "input_features"}]}, "task-mismatch", "'input_features'"),
    ],
)
def test_bad_input_is_explained(run, sounds, change, slug, said):
    error = run(**{"sounds": sounds, **change})["error"]
    assert (error["slug"], said in error["why"]) == (slug, True), error


def test_what_is_longer_than_the_length_is_counted(run, sounds):
    found = run(sounds, length=500)
    assert found["feeds"]["input_values"].shape == (3, 500)
    assert "1 of 3 rows are longer than 500 samples" in found["warnings"][0]


def test_a_model_without_a_processor_is_refused(run_program, make_model_folder):
    given = {"inputs": INPUTS, "outputs": LOGITS, "folder": make_model_folder(config=CONFIG)}
    error = run_program("speech-recognition", {"audio": np.zeros((2, 50)), "text": ["A", "B"]}, **given)["error"]
    assert (error["slug"], "preprocessor_config.json" in error["why"]) == ("tokenizer-missing", True)


def test_no_sound_at_all_is_said(run_program, folder):
    data = {"audio": np.zeros((0, 9), np.float32), "text": np.array([], np.str_)}
    error = run_program("speech-recognition", data, inputs=INPUTS, outputs=LOGITS, folder=folder)["error"]
    assert error["slug"] == "data-empty"
