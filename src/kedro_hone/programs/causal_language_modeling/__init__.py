"""Documents without labels; each token is predicted from those before it; the perplexity is of whole documents."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..shared import language
from ..shared.arrays import Array, Arrays
from ..shared.errors import UnreadableError
from ..shared.ratios import SumMetric
from ..shared.text import OPTIONS as TEXT
from ..shared.text import TEXTS, Tokens, check_task, need_texts

METRIC = "perplexity"
HIGHER_IS_BETTER = False

OPTIONS: dict[str, Any] = {
    **TEXT,
    "output": None,  # the output with a score for each word; by default the first one of three dimensions
}

decode, check, total = language.decode, language.check, language.measure_perplexity


def prepare(data: Arrays, job: dict[str, Any]) -> tuple[Arrays, Arrays]:
    """Turn documents into tokens; ``target`` is the token after each one, -100 after the last.

    Raises:
        UnreadableError: There is no text, or a document has fewer than two tokens.
        TaskMismatchError: The model does not predict words.
        TokenizerMissingError: The model has no tokenizer.
        BadOptionError: The option ``length`` is beyond the model's positions.
    """
    options = job["program"]["options"]
    check_task(job, options, task="causal-language-modeling", rank=3)
    tokens = Tokens(job, options)
    encoded = tokens.encode(need_texts(data, "text", options, TEXTS))
    rows = encoded["input_ids"]
    if short := [row for row, ids in enumerate(rows) if len(ids) < 2]:
        raise UnreadableError(f"row {short[0]} has {len(rows[short[0]])} tokens, and nothing is predicted there")
    feeds = tokens.feed(encoded)
    language.warn_of_size((len(rows), max(map(len, rows), default=0)), job, tokens.config)
    return feeds, {"target": tokens.pad([ids[1:] for ids in rows], language.NONE)}


def tally(predictions: Arrays, targets: Arrays, options: dict[str, Any]) -> Array:
    """Return for each document the loss of its tokens in nats, the number predicted correctly, and of all."""
    last = predictions["best"].shape[1] - 1  # if a row was cut to a shape, the token after it is not in the data
    cut = {"target": np.where(np.arange(targets["target"].shape[1]) < last, targets["target"], language.NONE)}
    return language.tally(predictions, cut, options)


_OWN = SumMetric(tally=tally, total=total)
metric, score = _OWN.metric, _OWN.score

METRICS = {"next_token_accuracy": SumMetric(tally=tally, total=language.measure_accuracy)}
"""The share of tokens that are predicted correctly."""
