"""Texts without labels; tokens masked by a seed are predicted and compared with the original ones."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..shared import language
from ..shared.arrays import Array, Arrays
from ..shared.errors import BadOptionError, UnreadableError
from ..shared.ratios import SumMetric
from ..shared.text import OPTIONS as TEXT
from ..shared.text import TEXTS, Tokens, check_task, find_token, need_texts

METRIC = "masked_accuracy"
HIGHER_IS_BETTER = True

OPTIONS: dict[str, Any] = {
    **TEXT,
    "share": 0.15,  # of a row's tokens to mask; at least one
    "seed": 0,  # of the random choice
    "output": None,  # the output with a score for each word; by default the first one of three dimensions
}

decode, check, tally, total = language.decode, language.check, language.tally, language.measure_accuracy
_OWN = SumMetric(tally=tally, total=total)
metric, score = _OWN.metric, _OWN.score


def prepare(data: Arrays, job: dict[str, Any]) -> tuple[Arrays, Arrays]:
    """Turn texts into tokens, and mask some of them; ``target`` has the original tokens, -100 elsewhere.

    Raises:
        UnreadableError: There is no text, or a row has no word.
        TaskMismatchError: The model does not predict words.
        TokenizerMissingError: The model has no tokenizer, or the tokenizer has no mask token.
        BadOptionError: The option ``length`` is beyond the model's positions, or ``share`` is not a share.
    """
    options = job["program"]["options"]
    if not 0 < options["share"] <= 1:
        raise BadOptionError(f"share is {options['share']!r}, and it is more than 0 and at most 1")
    check_task(job, options, task="masked-language-modeling", rank=3)
    tokens = Tokens(job, options)
    encoded = tokens.encode(need_texts(data, "text", options, TEXTS), return_special_tokens_mask=True)
    feeds = tokens.feed(encoded)
    language.warn_of_size(feeds["input_ids"].shape, job, tokens.config)
    special = tokens.pad(encoded["special_tokens_mask"], 1)
    chosen = _choose(feeds["input_ids"], special == 0, share=options["share"], seed=options["seed"])
    target = np.where(chosen, feeds["input_ids"], language.NONE)
    masked = np.where(chosen, find_token(tokens.tokenizer, "mask_token"), feeds["input_ids"])
    return {**feeds, "input_ids": masked}, {"target": target}


def _choose(ids: Array, words: Array, *, share: float, seed: int) -> Array:
    """Return which of a row's words are masked: drawn from the seed and the words, equally for equal rows."""
    chosen = np.zeros_like(words)
    for row, own in enumerate(words):
        places = np.flatnonzero(own)
        if not len(places):
            raise UnreadableError(f"row {row} has no word that could be masked")
        drawn = np.random.default_rng((seed, *ids[row, places])).permutation(places)
        chosen[row, drawn[: max(1, round(share * len(places)))]] = True
    return chosen


METRICS = {
    "pseudo_perplexity": SumMetric(tally=tally, total=language.measure_perplexity, HIGHER_IS_BETTER=False),
}
"""The exponential of the mean loss of a masked token."""
