"""Texts without labels: how close a candidate's embeddings are to the source's, pooled as defined by its files."""

from __future__ import annotations

from typing import Any

from ..shared.arrays import Array, Arrays
from ..shared.pretrained import check_head
from ..shared.ratios import RowMetric
from ..shared.text import OPTIONS as TEXT
from ..shared.text import TEXTS, Tokens, need_texts
from . import pooling
from .similarity import compare_neighbours, measure_cosine

METRIC = "cosine_to_source"
HIGHER_IS_BETTER = True
NEEDS_TARGETS = False  # the source's outputs stand in for them

OPTIONS: dict[str, Any] = {
    **TEXT,
    "pooling": None,  # "cls", "mean", "max" and others, or several; by default as in the model's 1_Pooling/config.json
    "normalize": None,  # whether embeddings are normalized to length 1; by default as in the model's modules.json
    "output": None,  # the output with the tokens' vectors, or the embeddings; by default found by its dimensions
}


def prepare(data: Arrays, job: dict[str, Any]) -> tuple[Arrays, Arrays]:
    """Turn texts into tokens; the targets contain which of these count, and how their vectors are pooled.

    Raises:
        UnreadableError: There is no text.
        TokenizerMissingError: The model has no tokenizer.
        BadOptionError: The option ``length`` is beyond the model's positions, or the pooling is unknown.
        TaskMismatchError: The model has a module after the pooling that is not part of its outputs.
    """
    options = job["program"]["options"]
    check_head(job, {}, "sentence-embedding")  # encoders are often saved with the head that they were trained with
    way = pooling.read_way(job, options)
    texts = [way.prompt + text for text in need_texts(data, "text", options, TEXTS)]
    tokens = Tokens(job, options, most=way.most, own_side=True)
    encoded = tokens.encode([text.lower() for text in texts] if way.lower else texts)
    mask = tokens.pad(encoded["attention_mask"], 0)
    if way.prompt and not way.includes_prompt:
        mask = pooling.leave_out(mask, _count_tokens(tokens, way))
    return tokens.feed(encoded), {"mask": mask, "table_way": way.write()}


def _count_tokens(tokens: Tokens, way: pooling.Way) -> int:
    """Return the number of tokens at the beginning of each row that belong to the prompt or precede any text."""
    prompt = way.prompt.lower() if way.lower else way.prompt
    (numbers,) = tokens.encode([prompt])["input_ids"]
    return len(numbers) - (numbers[-1] in tokens.tokenizer.all_special_ids)


def decode(outputs: Arrays, options: dict[str, Any]) -> Array:
    """Return the vectors of the tokens as (rows, tokens, numbers), or embeddings as (rows, numbers)."""
    return pooling.find_vectors(outputs, options["output"])


def _embed(predictions: Array, targets: Arrays, options: dict[str, Any]) -> tuple[Array, Array]:
    """Return the embeddings of a candidate and of the source."""
    wanted = pooling.find_vectors(targets, options["output"])
    given, source = (pooling.pool(vectors, targets["mask"], targets["table_way"]) for vectors in (predictions, wanted))
    return given, source


def score(predictions: Array, targets: Arrays, options: dict[str, Any]) -> Array:
    """Return the cosine of each row's embedding to the source's; 0 if it is not finite."""
    return measure_cosine(*_embed(predictions, targets, options))


metric = RowMetric(score=score).metric


def describe_metric(targets: Arrays, options: dict[str, Any]) -> dict[str, str]:  # noqa: ARG001 - part of every program
    """Return the kind of the metric: a mean over rows, although the source itself has 1 in each."""
    return {"kind": "mean"}


def _score_neighbours(predictions: Array, targets: Arrays, options: dict[str, Any]) -> Array:
    return compare_neighbours(*_embed(predictions, targets, options))


METRICS = {"neighbour_agreement": RowMetric(score=_score_neighbours)}
"""The share of rows with the same nearest other row as for the source; for the recipe's ``gates.drops``."""
