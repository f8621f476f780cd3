"""Texts and target texts; each token is predicted from the correct ones before it (teacher forcing)."""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from typing import Any

import numpy as np

from ..shared import language
from ..shared.arrays import Array, Arrays, choose_best
from ..shared.errors import TaskMismatchError
from ..shared.pieces import read_text, write_table
from ..shared.ratios import RowMetric, SumMetric
from ..shared.text import OPTIONS as TEXT
from ..shared.text import TEXTS, Tokens, check_task, choose_feeds, find_output, find_texts, need_texts

METRIC = "exact_match"
HIGHER_IS_BETTER = True

OPTIONS: dict[str, Any] = {
    **TEXT,
    "prefix": "",  # the prefix of each text, such as "translate English to German: "
    "target_length": None,  # tokens of each target, like length for the texts
    "output": None,  # the output with a score for each word; by default logits, or the first of three dimensions
}

SOURCES, TARGETS = ("source", "input", *TEXTS), ("summary", "translation", "answer", "label", "labels", "output")
check, NONE = language.check, language.NONE


def prepare(data: Arrays, job: dict[str, Any]) -> tuple[Arrays, Arrays]:
    """Turn texts into tokens, and targets into the decoder's inputs; ``target`` has the tokens to predict, else -100.

    Raises:
        UnreadableError: There is no text, or no target.
        TaskMismatchError: The model has no decoder.
        TokenizerMissingError: The model has no tokenizer.
        BadOptionError: The option ``length`` is beyond the model's positions.
    """
    options, inputs = job["program"]["options"], [spec["name"] for spec in job["input"]["inputs"]]
    if "decoder_input_ids" not in inputs:
        raise TaskMismatchError(f"the model takes {', '.join(inputs)}, and no decoder_input_ids")
    check_task(job, options, task="sequence-to-sequence", rank=3)
    texts = need_texts(data, "text", options, SOURCES)
    wanted = find_texts(data, "target", options, TARGETS)
    tokens, target = (
        Tokens(job, options),
        Tokens(job, {**options, "length": options["target_length"]}, name="decoder_input_ids"),
    )
    first = tokens.config.get("decoder_start_token_id")
    if first is None:
        raise TaskMismatchError("the model's config.json has no decoder_start_token_id")
    # Calibration may have no targets: then the decoder only gets its start token.
    encoded = target.encode(text_target=wanted or [""] * len(texts))
    rows: list[list[int]] = encoded["input_ids"] if wanted else [[first]] * len(texts)
    fill = tokens.tokenizer.pad_token_id or 0
    made = {
        "decoder_input_ids": target.pad([[first, *row[:-1]] for row in rows], fill),
        "decoder_attention_mask": target.pad([[1] * len(row) for row in rows], 0),
    }
    feeds = choose_feeds({**tokens.make(tokens.encode([options["prefix"] + text for text in texts])), **made}, job)
    if wanted is None:
        return feeds, {}
    labels = {"target": target.pad(rows, NONE), "reference": np.array(wanted, dtype=np.str_)}
    return feeds, {**labels, **write_table(tokens.tokenizer)}


def decode(outputs: Arrays, options: dict[str, Any]) -> Array:
    """Return the most likely token at each position, as (rows, tokens); -1 if the largest score is not finite."""
    scores = find_output(outputs, options["output"], rank=3)
    best = np.empty(scores.shape[:2], dtype=np.int64)
    for row, each in enumerate(scores):
        best[row] = choose_best(each)
    return best


def score(predictions: Array, targets: Arrays, options: dict[str, Any]) -> Array:  # noqa: ARG001 - part of every program
    """Return 1 for each row if all its tokens, and the end, are predicted correctly, otherwise 0."""
    wanted = targets["target"][:, : predictions.shape[1]]  # rows may be cut to a shape
    return np.asarray(((predictions[:, : wanted.shape[1]] == wanted) | (wanted == NONE)).all(axis=1), dtype=np.float64)


metric = RowMetric(score=score).metric


def count_ngrams(given: Sequence[str], wanted: Sequence[str]) -> list[list[int]]:
    """Return for each text the numbers of n-grams of each order: its own, its reference's, and the common ones."""
    found: list[list[int]] = _open_chrf()._extract_corpus_statistics(given, [wanted])  # noqa: SLF001 - see below
    return found


def measure_chrf(sums: Array) -> float:
    """Return chrF2, from 0 to 1, from the sums over texts."""
    return float(_open_chrf()._compute_score_from_stats([*sums]).score / 100)  # noqa: SLF001 - nothing public sums


def _open_chrf() -> Any:
    return importlib.import_module("sacrebleu.metrics").CHRF()  # not installed in toolchains' workers


def _tally_chrf(predictions: Array, targets: Arrays, options: dict[str, Any]) -> Array:  # noqa: ARG001 - as score
    """Return the numbers of n-grams of each row's text, cut to the length of its target."""
    rows = zip(predictions, targets["target"], strict=True)
    given = [read_text(row[: (wanted != NONE).sum()], targets) for row, wanted in rows]
    return np.array(count_ngrams(given, targets["reference"].tolist()), dtype=np.float64)


METRICS = {
    "chrf": SumMetric(
        tally=_tally_chrf, total=lambda sums, _: measure_chrf(sums), NEEDS={"sacrebleu": "kedro-hone[metrics]"}
    )
}
"""chrF2 of the text of these tokens, from 0 to 1, with the defaults of sacrebleu."""
