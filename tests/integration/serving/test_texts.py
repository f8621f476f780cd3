"""Texts in place of tokens, with a tokenizer that is made here."""

from __future__ import annotations

import json

import numpy as np
import pytest
from linear_winners import spec, write_winner
from onnx import helper
from running_server import run_serve
from tokenizers import Tokenizer, models, pre_tokenizers

pytestmark = pytest.mark.toolchain

WORDS = {"[PAD]": 0, "[UNK]": 1, "a": 2, "b": 3, "c": 4}


def write_encoder(folder, *, tokenizer: bool = True):
    """Write a model that returns the sum of a row's token ids where its mask is 1."""
    made = Tokenizer(models.WordLevel(WORDS, unk_token="[UNK]"))  # noqa: S106 - a token of the text
    made.pre_tokenizer = pre_tokenizers.Whitespace()
    config = json.dumps({"pad_token": "[PAD]", "model_max_length": 3})
    return write_winner(
        folder,
        nodes=[
            helper.make_node("Mul", ["input_ids", "attention_mask"], ["kept"]),
            helper.make_node("ReduceSum", ["kept", "axes"], ["y"], keepdims=0),
        ],
        inputs=[spec(name, "int64", "batch", "length") for name in ("input_ids", "attention_mask")],
        outputs=[spec("y", "int64", "batch")],
        weights={"axes": np.array([1])},
        rows={"input_ids": np.array([[2, 3], [4, 0]]), "attention_mask": np.array([[1, 1], [1, 0]])},
        shapes={"one": {"batch": 1, "length": 3}},
        files={"tokenizer.json": made.to_str(), "tokenizer_config.json": config} if tokenizer else None,
    )


def test_each_text_is_a_row(serve, tmp_path) -> None:
    with serve(write_encoder(tmp_path / "encoder"), "--with-tokenizer") as running:
        status, found = running.call("/v2/models/encoder")
        assert (status, found["inputs"]) == (200, [{"name": "text", "datatype": "BYTES", "shape": [-1]}])
        texts = ["a", "a b c", "a b c c c c c", "what"]
        tensor = {"name": "text", "datatype": "BYTES", "shape": [4], "data": texts}
        status, found = running.call("/v2/models/encoder/infer", {"inputs": [tensor]})
        assert (status, found["outputs"][0]["data"]) == (200, [2, 9, 9, 1])
        status, found = running.call("/v2/models/encoder/infer", {"inputs": [{**tensor, "name": "input_ids"}]})
        assert status == 400
        assert "one input, text" in found["error"]
        long = {**tensor, "shape": [1], "data": ["a " * (1 << 17) + "a"]}
        status, found = running.call("/v2/models/encoder/infer", {"inputs": [long]})
        assert status == 413
        assert "262,145 characters" in found["error"]


def test_a_winner_without_a_tokenizer_is_refused(tmp_path) -> None:
    done = run_serve(write_encoder(tmp_path / "encoder", tokenizer=False), "--with-tokenizer")
    assert done.returncode == 3
    assert "kedro-hone explain tokenizer-missing" in done.stderr
