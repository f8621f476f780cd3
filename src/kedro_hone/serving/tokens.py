"""The tokenizer that was published with a winner, so that a server takes texts."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from hone_runtime.errors import HoneError
from hone_runtime.learner.lengths import LENGTH
from hone_runtime.values.artifact import Artifact
from hone_runtime.values.prompts import PROMPTS, find_default_prompt, includes_prompt
from hone_runtime.values.regular import read_regular
from kedro_hone.serving.server.configuration import TextInput

TOKENIZER: Final = "tokenizer.json"
_CONFIG, _SENTENCES = "tokenizer_config.json", "sentence_bert_config.json"
_LARGEST: Final = 1 << 20
_UNLIMITED: Final = 10**6
"""Transformers writes a very large number where a tokenizer has no limit."""


def find_text_input(folder: Path, artifact: Artifact) -> TextInput:
    """Return how texts become the inputs of a winner, by the files that were published with it.

    Raises:
        HoneError: ``tokenizer-missing``; ``serving-unsupported``: its source put a prompt before texts, and the winner
            was compiled without it.
    """
    if not (folder / TOKENIZER).is_file():
        raise _explain(f"{TOKENIZER} is not among its files.")
    config, sentences = _read(folder / _CONFIG), _read(folder / _SENTENCES)
    pad = config.get("pad_token")
    pad = pad.get("content") if isinstance(pad, dict) else pad
    if not isinstance(pad, str):
        raise _explain(f"{_CONFIG} names no pad_token.")
    lengths = [size for size in _list_lengths(artifact, config, sentences) if type(size) is int and size < _UNLIMITED]
    if not lengths:
        raise _explain(f"Neither {_CONFIG} nor the model names the largest number of tokens.")
    return TextInput(
        tokenizer=Path(TOKENIZER),
        length=min(lengths),
        pad_token=pad,
        prompt=_find_prompt(folder, artifact),
        lower=sentences.get("do_lower_case") is True,
        left=config.get("padding_side") == "left",
        truncates_left=config.get("truncation_side") == "left",
    )


def _list_lengths(artifact: Artifact, config: dict[str, Any], sentences: dict[str, Any]) -> Iterator[Any]:
    noted: Any = artifact.metadata.get("transformers") or {}
    yield config.get("model_max_length")
    yield sentences.get("max_seq_length")
    yield (noted.get("limits") or {}).get(LENGTH)
    if compiled := [shape.sizes[LENGTH] for shape in artifact.static_shapes if LENGTH in shape.sizes]:
        yield max(compiled)
    yield from (size for spec in artifact.inputs for size in spec.shape[1:] if isinstance(size, int))


def _find_prompt(folder: Path, artifact: Artifact) -> str:
    prompt = find_default_prompt(_read(folder / PROMPTS))
    noted: Any = artifact.metadata.get("transformers") or {}
    pooling = [row["config"] for row in noted.get("modules") or () if row.get("kind") == "Pooling"]
    if prompt and not all(map(includes_prompt, pooling)):
        raise HoneError(
            "serving-unsupported",
            "The winner cannot be served with its tokenizer.",
            why="Its source leaves the tokens of a prompt out of the embedding, and how many these are is no input.",
            hint="Serve it without --with-tokenizer, and send the tokens.",
        )
    return prompt


def _read(path: Path) -> dict[str, Any]:
    """Return a file's JSON object; empty if the file is absent."""
    if not path.exists():
        return {}
    try:
        found = json.loads(read_regular(path, limit=_LARGEST))
    except (OSError, ValueError, RecursionError) as error:
        raise _explain(f"{path.name} cannot be read: {error}") from error
    return found if isinstance(found, dict) else {}


def _explain(why: str) -> HoneError:
    return HoneError(
        "tokenizer-missing",
        "The winner has no tokenizer that can be used.",
        why=why,
        hint="Serve it without --with-tokenizer; or save the tokenizer with the source, and optimize it again.",
    )
