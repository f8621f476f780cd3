"""Questions with a context that contains the answer (SQuAD); the best span of the context is predicted."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ..shared.arrays import Array, Arrays, find_array
from ..shared.errors import LabelsMismatchError, UnreadableError
from ..shared.ratios import RowMetric
from ..shared.text import OPTIONS as TEXT
from ..shared.text import Tokens, check_task, find_output, need_texts
from .answers import compare_exactly, compare_words, find_known, find_spans

METRIC = "answer_f1"
HIGHER_IS_BETTER = True

OPTIONS: dict[str, Any] = {
    **TEXT,
    "longest_answer": 30,  # in tokens
    "start": None,  # the output with the scores of first tokens; by default start_logits, or the first one
    "end": None,  # the output with the scores of last tokens; by default end_logits, or the second one
}


def prepare(data: Arrays, job: dict[str, Any]) -> tuple[Arrays, Arrays]:
    """Turn pairs of question and context into tokens, one row per question, with their positions in the text.

    ``spans`` are the first character of each token of the context and the one after its last: (rows, tokens, 2), -1
    elsewhere. ``answers`` are the accepted ones: (rows, answers), all of them empty if there is no answer.

    Raises:
        UnreadableError: There are no questions, contexts or lists of answers.
        TaskMismatchError: The model has no scores of first and last tokens.
        TokenizerMissingError: The model has no tokenizer.
        BadOptionError: The option ``length`` is beyond the model's positions.
    """
    options = job["program"]["options"]
    check_task(job, options, task="question-answering", rank=2, output="start")
    questions = [text.strip() for text in need_texts(data, "question", options, ("query",))]
    contexts = need_texts(data, "context", options, ("passage", "document"))
    tokens = Tokens(job, options, fast=True)
    encoded = tokens.encode(questions, contexts, only_second=True, return_offsets_mapping=True)
    feeds = tokens.feed(encoded)
    rows = [
        [span if part == 1 else (-1, -1) for span, part in zip(spans, encoded.sequence_ids(row), strict=True)]
        for row, spans in enumerate(encoded["offset_mapping"])
    ]
    answers = find_array(data, "target", arrays=options["arrays"], aliases=("answers", "answer"))
    if answers is None:
        return feeds, {}
    texts = [_read_answers(row, number) for number, row in enumerate(answers)]
    count = max(map(len, texts), default=1)
    width = max(map(len, rows), default=0)
    spans = np.full((len(rows), width, 2), -1, dtype=np.int64)
    for at, row in enumerate(rows):
        spans[at, : len(row)] = row
    return feeds, {
        "answers": np.array([[*row, *row[:1] * (count - len(row))] for row in texts], dtype=np.str_),
        "context": np.array(contexts, dtype=np.str_),
        "spans": spans,
    }


def _read_answers(given: Any, row: int) -> list[str]:
    """Return the accepted answers, from SQuAD's ``{"text": […]}``, a list or one text; one empty text for none."""
    if isinstance(given, dict):
        given = given.get("text")
    found = [given] if isinstance(given, str) else list(given) if isinstance(given, list | np.ndarray) else None
    if found is None or not all(isinstance(text, str) for text in found):
        raise UnreadableError(f"row {row} has no list of answers: {str(given)[:40]!r}")
    return [str(text) for text in found] or [""]


def decode(outputs: Arrays, options: dict[str, Any]) -> Arrays:
    """Return the scores of first and of last tokens, each as (rows, tokens)."""
    flat = {
        name: array[..., 0] if array.ndim == 3 and array.shape[2] == 1 else array for name, array in outputs.items()
    }
    start = find_output(flat, options["start"], rank=2, words=("start_logits",))
    rest = {name: array for name, array in flat.items() if array is not start}
    end = find_output(rest, options["end"], rank=2, words=("end_logits",))
    return {"start": start, "end": end}


def check(outputs: Arrays, targets: Arrays, options: dict[str, Any]) -> None:  # noqa: ARG001 - part of every program
    """Refuse outputs that do not have a score for each token (``LabelsMismatchError``)."""
    shapes = {array.shape for array in decode(outputs, options).values()}
    if len(shapes) > 1:
        raise LabelsMismatchError(f"the scores of first and last tokens have different shapes: {sorted(shapes)}")


def find_doubt(outputs: Arrays, targets: Arrays, options: dict[str, Any]) -> str | None:
    """Return a doubt if nearly no answer is correct."""
    right = metric(decode(outputs, options), targets, options)
    if right >= 0.1:
        return None
    return (
        f"the predictions have an F1 of {right:.3f}: check that the model answers questions, and that these are its own"
    )


def _answer(predictions: Arrays, targets: Arrays, options: dict[str, Any]) -> list[str | None]:
    """Return the predicted answer of each question, an empty text for none; None if the scores are NaN."""
    empty = bool((targets["answers"] == "").all(axis=1).any())  # then "no answer" may be correct, as in SQuAD 2
    first, last = find_spans(
        predictions["start"], predictions["end"], targets["spans"], longest=options["longest_answer"], empty=empty
    )
    known = find_known(predictions["start"], predictions["end"], targets["spans"])
    texts = zip(targets["context"], targets["spans"], first, last, known, strict=True)
    return [
        (str(text)[spans[a, 0] : spans[b, 1]] if b >= 0 else "") if is_known else None
        for text, spans, a, b, is_known in texts
    ]


def _compare(
    compare: Callable[[str, str], float], predictions: Arrays, targets: Arrays, options: dict[str, Any]
) -> Array:
    """Return how close each answer is to the closest accepted one."""
    answers = zip(_answer(predictions, targets, options), targets["answers"], strict=True)
    return np.array(
        [0.0 if given is None else max(compare(given, str(text)) for text in wanted) for given, wanted in answers]
    )


def score(predictions: Arrays, targets: Arrays, options: dict[str, Any]) -> Array:
    """Return the F1 of the words of each answer, compared with the closest accepted one."""
    return _compare(compare_words, predictions, targets, options)


metric = RowMetric(score=score).metric


def describe_metric(targets: Arrays, options: dict[str, Any]) -> dict[str, str]:  # noqa: ARG001 - part of every program
    """Return the kind of the metric: a mean over questions."""
    return {"kind": "mean"}


def _score_exactly(predictions: Arrays, targets: Arrays, options: dict[str, Any]) -> Array:
    return _compare(compare_exactly, predictions, targets, options)


METRICS = {"exact_match": RowMetric(score=_score_exactly)}
"""The share of questions for which the answer, without case, articles and punctuation, is an accepted one."""
