from __future__ import annotations

import json
from pathlib import Path

import pytest

from hone_runtime.errors import HoneError
from hone_runtime.values.artifact import Artifact, Shape, TensorSpec
from kedro_hone.serving.tokens import find_text_input

X = TensorSpec(name="input_ids", dtype="int64", shape=("batch", "length"))
CONFIG = {"pad_token": "[PAD]", "model_max_length": 512}


def make(*, limit: int = 128, **more) -> Artifact:
    noted = {"transformers": {"limits": {"length": limit}}}
    return Artifact(
        format="onnx", digest="sha256:0", inputs=(X,), outputs=(), runtime="onnxruntime", metadata=noted, **more
    )


def write(folder: Path, **files) -> Path:
    for name, content in {"tokenizer": {}, "tokenizer_config": CONFIG, **files}.items():
        (folder / f"{name}.json").write_text(json.dumps(content))
    return folder


def test_the_smallest_limit_counts(tmp_path: Path) -> None:
    assert find_text_input(write(tmp_path), make()).length == 128
    shapes = (Shape(name="a", sizes={"batch": 1, "length": 32}),)
    assert find_text_input(tmp_path, make(static_shapes=shapes)).length == 32
    assert find_text_input(write(tmp_path, sentence_bert_config={"max_seq_length": 64}), make()).length == 64


def test_what_the_source_does_with_texts_is_done(tmp_path: Path) -> None:
    config = {**CONFIG, "pad_token": {"content": "<pad>"}, "padding_side": "left", "truncation_side": "left"}
    prompts = {"prompts": {"query": "query: "}, "default_prompt_name": "query"}
    folder = write(
        tmp_path,
        tokenizer_config=config,
        sentence_bert_config={"do_lower_case": True},
        config_sentence_transformers=prompts,
    )
    found = find_text_input(folder, make())
    assert (found.pad_token, found.left, found.truncates_left, found.lower) == ("<pad>", True, True, True)
    assert found.prompt == "query: "


@pytest.mark.parametrize(
    ("missing", "why"), [("tokenizer.json", "not among its files"), ("tokenizer_config.json", "names no pad_token")]
)
def test_a_missing_file_is_named(tmp_path: Path, missing: str, why: str) -> None:
    (write(tmp_path) / missing).unlink()
    with pytest.raises(HoneError, match=why) as refused:
        find_text_input(tmp_path, make())
    assert refused.value.slug == "tokenizer-missing"


def test_a_tokenizer_without_a_largest_length_is_refused(tmp_path: Path) -> None:
    artifact = make().model_copy(update={"metadata": {}})
    folder = write(tmp_path, tokenizer_config={**CONFIG, "model_max_length": 10**30})
    with pytest.raises(HoneError, match="largest number of tokens"):
        find_text_input(folder, artifact)


def test_a_prompt_that_the_winner_cannot_leave_out_is_refused(tmp_path: Path) -> None:
    modules = [{"kind": "Pooling", "config": {"include_prompt": False}}]
    artifact = make().model_copy(update={"metadata": {"transformers": {"modules": modules}}})
    prompts = {"prompts": {"q": "q: "}, "default_prompt_name": "q"}
    with pytest.raises(HoneError, match="prompt") as refused:
        find_text_input(write(tmp_path, config_sentence_transformers=prompts), artifact)
    assert refused.value.slug == "serving-unsupported"
