"""Texts and no labels; tokens that were masked by a seed are predicted, and compared with what they were."""

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
    "share": 0.15,  # of the tokens of a row that are masked; one at least
    "seed": 0,  # of the choice
    "output": None,  # the output with the words of the vocabulary; the first one of three dimensions when empty
}

decode, check, tally, total = language.decode, language.check, language.tally, language.measure_accuracy
_OWN = SumMetric(tally=tally, total=total)
metric, score = _OWN.metric, _OWN.score


def prepare(data: Arrays, job: dict[str, Any]) -> tuple[Arrays, Arrays]:
    """Turn texts into tokens of which some are masked; ``target`` is what those were, -100 elsewhere.

    Raises:
        UnreadableError: There is no text, or a row of it has no word.
        TaskMismatchError: The model does not predict words.
        TokenizerMissingError: The model has no tokenizer, or this one no mask.
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
    """Return which of a row's words are masked: drawn by the seed and the words, so that copies stay copies."""
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
"""e to the mean cost of a masked token."""
