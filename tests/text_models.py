"""Tokenizers and models of text, small enough to be made in a test."""

from __future__ import annotations

import json

WORDS = [
    *(
        "[PAD]",
        "[UNK]",
        "[CLS]",
        "[SEP]",
        "[MASK]",
        "a",
        "b",
        "c",
        "d",
        "e",
        "f",
        "good",
        "bad",
        "film",
        "great",
        "dull",
    ),
    *("ann", "bob", "went", "to", "paris", "rome", "the"),
]


def save_tokenizer(folder, words):
    from tokenizers import Tokenizer, models, pre_tokenizers, processors

    numbers = {word: number for number, word in enumerate(words)}
    tokenizer = Tokenizer(models.WordPiece(numbers, unk_token=words[1]))
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.post_processor = processors.BertProcessing(("[SEP]", numbers["[SEP]"]), ("[CLS]", numbers["[CLS]"]))
    tokenizer.save(str(folder / "tokenizer.json"))
    special = {f"{name}_token": f"[{name.upper()}]" for name in ("pad", "unk", "cls", "sep", "mask")}
    (folder / "tokenizer_config.json").write_text(
        json.dumps({"tokenizer_class": "PreTrainedTokenizerFast", "model_max_length": 512, **special})
    )


def list_ids(dim="length", *, mask=True, types=False):
    """Specifications of the inputs of a model of text."""
    names = ["input_ids", *(["attention_mask"] if mask else []), *(["token_type_ids"] if types else [])]
    return [{"name": name, "dtype": "int64", "shape": ["batch", dim]} for name in names]
