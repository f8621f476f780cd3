"""The modules that sentence-transformers lists after an encoder: those with weights are part of the model."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from hone_runtime.errors import HoneError
from hone_runtime.text import open_logger
from hone_runtime.values.base import Json
from hone_runtime.values.prompts import PROMPTS, find_default_prompt, includes_prompt
from kedro_hone.sources.files import make_corrupt, make_untrusted
from kedro_hone.sources.huggingface.documents import read_document

logger = open_logger(__name__)

MODULES: Final = "modules.json"
_LARGEST: Final = 1 << 20
_WAY_OUT: Final = f"Remove {MODULES} from a copy of the model and name that: its encoder alone is optimized then."
_LIBRARY: Final = "sentence_transformers."
_ENCODER: Final = "Transformer"
_PLAIN: Final = frozenset({"Pooling", "Normalize", "Dropout"})
"""Modules without weights: the program computes them if there are no others."""
_WEIGHTED: Final = frozenset({"Dense", "LayerNorm"})
_PLACE: Final = re.compile(r"\d+_\w+", re.ASCII)
_EMBEDDING: Final = "sentence_embedding"
_FLAGS: Final = {
    "pooling_mode_cls_token": "cls",
    "pooling_mode_max_tokens": "max",
    "pooling_mode_mean_tokens": "mean",
    "pooling_mode_mean_sqrt_len_tokens": "mean_sqrt_len_tokens",
    "pooling_mode_weightedmean_tokens": "weightedmean",
    "pooling_mode_lasttoken": "lasttoken",
}
"""Keys of a pooling's configuration from older versions, in the order of the results."""


def list_modules(root: Path) -> list[Json]:
    """Return the modules after the encoder if one of them has weights; otherwise none: the encoder is the model.

    Each has its ``kind``, its ``path`` and its ``config``, and a pooling its ``modes``.

    Raises:
        HoneError: ``model-corrupt``: the files do not have the format of sentence-transformers. ``pickle-not-trusted``:
            a module's weights are a pickle. ``model-unsupported``: a module is a class of the author's; or one with
            weights is combined with an unknown one, has no pooling before it, or has a pooling that leaves out the
            default prompt.
    """
    rows = _read_modules(root)
    _refuse_foreign(rows)
    kinds = [_name(row) for row in rows]
    strange = [kind for kind in kinds[1:] if kind not in _PLAIN | _WEIGHTED]
    weighted = [kind for kind in kinds if kind in _WEIGHTED]
    if strange or (kinds and kinds[0] != _ENCODER):
        named = (strange or kinds)[0] or "a module without a type"
        if weighted:
            raise HoneError(
                "model-unsupported",
                f"The model has a module of sentence-transformers that cannot be converted: {named:.80}.",
                why=f"Its {MODULES} lists it with {weighted[0]}; known are {_ENCODER}, Pooling, Dense, LayerNorm and "
                "Normalize.",
                hint=_WAY_OUT,
            )
        if kinds:
            logger.warning("warning   %s lists %s: its encoder alone is optimized, without that", MODULES, named[:80])
        return []
    modules = [_read_module(root, row) for row in rows[1:] if _name(row) != "Dropout"] if weighted else []
    if modules and modules[0]["kind"] != "Pooling":
        raise HoneError(
            "model-unsupported",
            f"The model's module {modules[0]['kind']} ({modules[0]['path']}) comes before any Pooling.",
            why="It works on the embedding of a sentence, which Pooling makes of those of the tokens.",
            hint=_WAY_OUT,
        )
    _refuse_prompt(root, modules)
    return [*modules]


def _refuse_foreign(rows: Sequence[Mapping[str, Any]]) -> None:
    """Refuse classes that are not from sentence-transformers, whatever the last part of their names."""
    named = (row["type"] for row in rows if isinstance(row.get("type"), str))
    if foreign := next((one for one in named if not one.startswith(_LIBRARY)), None):
        raise HoneError(
            "model-unsupported",
            f"The model has a module that is not a class of sentence-transformers: {foreign:.80}.",
            why=f"Its {MODULES} lists it, and what such a class computes is known to its author's code only.",
            hint=_WAY_OUT,
        )


def _refuse_prompt(root: Path, modules: Sequence[Mapping[str, Any]]) -> None:
    """Refuse a pooling that leaves out the prompt's tokens: their number is not an input of the model."""
    left = [row["path"] for row in modules if row["kind"] == "Pooling" and not includes_prompt(row["config"])]
    prompt = find_default_prompt(read_document(root / PROMPTS)) if left and (root / PROMPTS).is_file() else ""
    if prompt:
        raise HoneError(
            "model-unsupported",
            f"The model's module Pooling ({left[0]}) leaves out the tokens of the prompt {prompt!r:.60}.",
            why=f"Its config.json has include_prompt: false, and {PROMPTS} names that prompt as the default one.",
            hint=_WAY_OUT,
        )


def _read_modules(root: Path) -> list[dict[str, Any]]:
    path = root / MODULES
    if not path.is_file():
        return []
    if path.stat().st_size > _LARGEST:
        raise make_corrupt(path, f"it is larger than {_LARGEST} bytes")
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except (ValueError, RecursionError) as error:
        raise make_corrupt(path, f"it is not JSON: {str(error)[:200]}") from error
    if not isinstance(found, list):
        return []
    return [row for row in found if isinstance(row, dict)]


def _name(row: Mapping[str, Any]) -> str:
    type_name = row.get("type")
    return type_name.rpartition(".")[2][:100] if isinstance(type_name, str) else ""


def _read_module(root: Path, row: Mapping[str, Any]) -> dict[str, Json]:
    kind, place = _name(row), row.get("path")
    if not isinstance(place, str) or not _PLACE.fullmatch(place):
        raise make_corrupt(root / MODULES, f"the path of {kind} is not a folder in it")
    folder = root / place
    config: dict[str, Json] = read_document(folder / "config.json") if (folder / "config.json").is_file() else {}
    module: dict[str, Json] = {"kind": kind, "path": place, "config": config}
    if {config.get(key) or _EMBEDDING for key in ("module_input_name", "module_output_name")} != {_EMBEDDING}:
        raise HoneError(
            "model-unsupported",
            f"The model's module {kind} ({place}) works on something else than the embedding of a sentence.",
            why=f"Its config.json says so: {config.get('module_input_name')!r:.60}.",
            hint=_WAY_OUT,
        )
    if kind == "Pooling":
        module["modes"] = _list_modes(config)
    if kind in _WEIGHTED and not (folder / "model.safetensors").is_file():
        if (folder / "pytorch_model.bin").is_file():
            raise make_untrusted(
                f"The weights of the model's module {kind} are a pickle ({place}/pytorch_model.bin).",
                hint="Save it again: SentenceTransformer(folder).save(other) writes safetensors.",
            )
        raise make_corrupt(folder, f"it has no weights of {kind}: model.safetensors is missing")
    return module


def _list_modes(config: Mapping[str, Json]) -> list[Json]:
    found = config.get("pooling_mode") or [mode for flag, mode in _FLAGS.items() if config.get(flag)] or "mean"
    return [found] if isinstance(found, str) else list(found) if isinstance(found, list) else ["mean"]
