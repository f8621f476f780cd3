"""Pools the vectors of tokens to one for each row, as defined by the files of sentence-transformers."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any

import numpy as np

from ..shared.arrays import Array, Arrays
from ..shared.errors import BadOptionError, TaskMismatchError
from ..shared.pretrained import find_folder, read_json
from ..shared.text import find_output

_FLAGS = {
    "pooling_mode_cls_token": "cls",
    "pooling_mode_max_tokens": "max",
    "pooling_mode_mean_tokens": "mean",
    "pooling_mode_mean_sqrt_len_tokens": "mean_sqrt_len_tokens",
    "pooling_mode_weightedmean_tokens": "weightedmean",
    "pooling_mode_lasttoken": "lasttoken",
}
"""The keys of older files, and the modes of sentence-transformers. The host has the same; programs cannot import it."""

NORMALIZE = "normalize"


@dataclass(frozen=True, kw_only=True)
class Way:
    """How embeddings are made: the modes of pooling, whether they are normalized, and the changes of the text.

    Attributes:
        prompt: The prefix of each text.
        includes_prompt: Whether the prompt's tokens are pooled, too.
    """

    modes: tuple[str, ...]
    normalize: bool
    most: int | None = None
    lower: bool = False
    prompt: str = ""
    includes_prompt: bool = True

    def write(self) -> Array:
        """Return the modes, and the word ``normalize``, as an array of text."""
        return np.array([*self.modes, *([NORMALIZE] if self.normalize else [])], dtype=np.str_)


def read_way(job: dict[str, Any], options: dict[str, Any]) -> Way:
    """Return how embeddings are made according to the model's own files; by default the mean of the tokens.

    Raises:
        BadOptionError: A mode of pooling is unknown.
        TaskMismatchError: A part of the model comes after the pooling, such as a dense layer.
    """
    folder = find_folder(job, options)
    inside = job["input"].get("metadata", {}).get("transformers", {}).get("modules")
    listed: Any = [] if inside else _read_modules(job, options)  # modules inside the model are already computed
    kinds = {_name_kind(str(row.get("type", ""))): str(row.get("path", "")) for row in listed}
    if strange := kinds.keys() - {"Transformer", "Pooling", "Normalize"}:
        why = "which the model's outputs lack; name the output with the embeddings: hone.program.options.output"
        if options["output"] is None:
            raise TaskMismatchError(f"modules.json has {min(strange)}, {why}")
    place = PurePosixPath(kinds.get("Pooling") or "1_Pooling")
    inside = not place.is_absolute() and ".." not in place.parts
    config = read_json(folder, f"{place}/config.json") if inside else {}
    found = config.get("pooling_mode") or [mode for flag, mode in _FLAGS.items() if config.get(flag)] or "mean"
    asked = options["pooling"] or found
    modes = (asked,) if isinstance(asked, str) else tuple(asked)
    if unknown := [mode for mode in modes if mode not in _FLAGS.values()]:
        raise BadOptionError(f"pooling is {unknown[0]!r}, and there are {', '.join(_FLAGS.values())}")
    normalize = options["normalize"]
    sentences = read_json(folder, "sentence_bert_config.json")
    return Way(
        modes=modes,
        normalize="Normalize" in kinds if normalize is None else bool(normalize),
        most=sentences.get("max_seq_length") or None,
        lower=bool(sentences.get("do_lower_case")),
        prompt=_read_prompt(folder),
        includes_prompt=bool(config.get("include_prompt", True)),
    )


def leave_out(mask: Array, count: int) -> Array:
    """Return a mask (rows, tokens) with -1 for the first tokens of each row, wherever its padding is.

    These are not pooled, but count for the positions of the tokens after them.
    """
    return np.asarray(np.where(mask.cumsum(axis=1) > count, mask, -mask))


def _read_prompt(folder: Path) -> str:
    """Return the default prompt that ``encode`` puts before each text."""
    said = read_json(folder, "config_sentence_transformers.json")
    prompts, name = said.get("prompts"), said.get("default_prompt_name")
    found = prompts.get(name) if isinstance(prompts, dict) and isinstance(name, str) else None
    return found if isinstance(found, str) else ""


def _name_kind(said: str) -> str:
    """Return the name of a class of sentence-transformers; for an author's own class the full name, quoted."""
    return said.rpartition(".")[2] if said.startswith("sentence_transformers.") else repr(said)


def _read_modules(job: dict[str, Any], options: dict[str, Any]) -> list[dict[str, Any]]:
    found = read_json(find_folder(job, options), "modules.json", kind=list)
    return [row for row in found if isinstance(row, dict)]


def find_vectors(outputs: Arrays, name: str | None) -> Array:
    """Return the output with embeddings or with the vectors of tokens.

    It is the named one, or the one called ``sentence_embedding``, or the first of three dimensions, or of two.

    Raises:
        TaskMismatchError: There is none.
    """
    name = name or ("sentence_embedding" if "sentence_embedding" in outputs else None)
    if name in outputs:
        return outputs[name]
    floats = {known: array for known, array in outputs.items() if array.dtype.kind == "f"}
    rank = 3 if any(array.ndim == 3 for array in floats.values()) else 2
    return find_output(floats, name, rank=rank, words=("last_hidden_state", "token_embeddings"))


def pool(vectors: Array, mask: Array, way: Array) -> Array:
    """Return one vector for each row, in float64: (rows, numbers); several modes are concatenated."""
    words = [str(word) for word in way]
    if vectors.ndim == 3:
        left = bool(mask[:, -1].all() and not mask[:, 0].all())
        mask = mask[:, -vectors.shape[1] :] if left else mask[:, : vectors.shape[1]]  # rows may be cut to a shape
        pooled = [_pool(vectors, mask, mode) for mode in words if mode != NORMALIZE]
        vectors = np.concatenate(pooled, axis=1)
    wide = vectors.astype(np.float64)
    if NORMALIZE in words:
        with np.errstate(over="ignore", invalid="ignore"):
            wide = wide / np.maximum(np.linalg.norm(wide, axis=1, keepdims=True), 1e-12)
    return wide


def _pool(vectors: Array, marks: Array, mode: str) -> Array:
    """Return one vector for each row; a token counts if its mark is 1, and has a position if its mark is not 0."""
    mask = (marks > 0).astype(np.float64)
    if mode == "cls":
        return np.asarray(vectors[np.arange(len(vectors)), mask.argmax(axis=1)], dtype=np.float64)
    if mode == "lasttoken":
        last = np.maximum(mask.shape[1] - 1 - mask[:, ::-1].argmax(axis=1), 0)
        return np.asarray(vectors[np.arange(len(vectors)), last], dtype=np.float64)
    if mode == "max":
        return np.asarray(np.where(mask[..., None] > 0, vectors, -np.inf).max(axis=1))
    weights = mask * (marks != 0).cumsum(axis=1) if mode == "weightedmean" else mask
    sums = np.einsum("nld,nl->nd", vectors, weights)
    count = np.maximum(weights.sum(axis=1, keepdims=True), 1e-9)
    return np.asarray(sums / (np.sqrt(count) if mode == "mean_sqrt_len_tokens" else count))
