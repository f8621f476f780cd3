"""The JSON files of a model of Transformers, read with limits and written in a normalized form.

Saving a model adds its origin, the version that saved it, and the type in which it was open. None of that is part of
the model. Without it, and with sorted keys, the same model has the same text in every registry.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from hone_runtime.values.base import Json
from kedro_hone.sources.files import make_corrupt

LARGEST: Final = 16 * 1024 * 1024
"""The largest configuration that is parsed, in bytes."""
_DEEPEST: Final = 64

_OF_A_COPY: Final = re.compile(
    r"_name_or_path|name_or_path|transformers_version|_commit_hash|is_local|local_files_only|tokenizer_file"
    r"|_attn_implementation(_autoset|_internal)?|_experts_implementation|torch_dtype|dtype|_from_model_config"
)
"""Keys that describe one copy of a model, not the model."""
CANONICAL: Final = re.compile(
    r"(config|generation_config|tokenizer_config|special_tokens_map|preprocessor_config|processor_config)\.json"
)
"""Names of the files that are written in normalized form."""
_WHOLE, _PART, _TOKENIZER = "processor_config.json", "preprocessor_config.json", "tokenizer_config.json"
_PARTS: Final = ("feature_extractor", "image_processor")
_REPEATED: Final = "model_specific_special_tokens"


def read_document(path: Path) -> dict[str, Json]:
    """Return the dictionary in a file.

    Raises:
        HoneError: ``model-corrupt``: it is too large, nested too deeply, or not a JSON dictionary.
    """
    if path.stat().st_size > LARGEST:
        raise make_corrupt(path, f"it is larger than {LARGEST} bytes")
    try:
        found = json.loads(path.read_text(encoding="utf-8"), parse_constant=_refuse)
        _check_depth(found, _DEEPEST)
        json.dumps(found, ensure_ascii=False, allow_nan=False).encode()  # a lone surrogate, or 1e999, cannot be written
    except (ValueError, RecursionError) as error:
        raise make_corrupt(path, f"it is not JSON: {str(error).partition(chr(10))[0]:.200}") from error
    if not isinstance(found, dict):
        raise make_corrupt(path, "it holds no dictionary")
    return found


def _refuse(text: str) -> None:
    raise ValueError(f"{text} is not a number")


def _check_depth(value: Any, left: int) -> None:
    if left == 0:
        raise ValueError(f"it is deeper than {_DEEPEST} levels")
    for item in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        _check_depth(item, left - 1)


def strip(document: Mapping[str, Json], *, dtype: str | None = None) -> dict[str, Json]:
    """Return a configuration without the keys of one copy; with ``dtype``, the actual type of its weights."""
    kept = _strip(document)
    return {**kept, "dtype": dtype} if dtype else kept


def _strip(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {key: _strip(item) for key, item in value.items() if not _OF_A_COPY.fullmatch(key)}
    return [_strip(item) for item in value] if isinstance(value, list) else value


def unify_layouts(documents: Mapping[str, dict[str, Json]]) -> dict[str, dict[str, Json]]:
    """Return the documents of a model in one of the several layouts that Transformers writes.

    A processor saved as a whole has its parts in ``processor_config.json``; saved in parts it does not. A tokenizer
    that is saved for the second time repeats its special tokens in a dictionary.
    """
    settled = dict(documents)
    whole, parts = (
        settled.get(_WHOLE, {}),
        [part for part in _PARTS if isinstance(settled.get(_WHOLE, {}).get(part), dict)],
    )
    if len(parts) == 1 and _PART not in settled:
        settled[_PART] = whole[parts[0]]
        settled[_WHOLE] = {key: value for key, value in whole.items() if key != parts[0]}
    if settled.get(_WHOLE, {"": ""}).keys() <= {"processor_class"}:
        del settled[_WHOLE]  # also in the tokenizer's configuration
    if isinstance(words := settled.get(_TOKENIZER, {}).get(_REPEATED), dict):
        tokenizer = settled[_TOKENIZER]
        if all(tokenizer.get(word) == text for word, text in words.items()):
            settled[_TOKENIZER] = {key: value for key, value in tokenizer.items() if key != _REPEATED}
    return settled


def write(document: Mapping[str, Json]) -> str:
    """Return a configuration as text: two spaces, sorted keys, as written by Transformers."""
    return json.dumps(document, indent=2, sort_keys=True, ensure_ascii=False) + "\n"
