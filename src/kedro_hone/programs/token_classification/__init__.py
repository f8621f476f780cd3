"""Words with a tag each, by number or name; scored by the entities in a sentence's tags, or by word."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..shared.arrays import Array, Arrays, choose_best, find_array
from ..shared.errors import LabelsMismatchError, UnreadableError
from ..shared.pretrained import list_labels
from ..shared.ratios import SumMetric, measure_f1, measure_share
from ..shared.targets import pack
from ..shared.text import OPTIONS as TEXT
from ..shared.text import Tokens, check_task, find_output
from .entities import has_entities, list_entities

METRIC = "entity_f1"
HIGHER_IS_BETTER = True

OPTIONS: dict[str, Any] = {
    **TEXT,
    "classes": None,  # names of the tags in the order of the model's outputs; by default those in its config.json
    "output": None,  # the output with a score for each tag; by default the first one of three dimensions
}

WORDS, TAGS = ("words", "tokens", "text"), ("tags", "ner_tags", "labels", "label", "pos_tags")
_SHOWN = 5  # the tags of the model that are named
NONE = -100  # the tag of no word: pads shorter sentences


def prepare(data: Arrays, job: dict[str, Any]) -> tuple[Arrays, Arrays]:
    """Turn sentences of words into tokens, and their tags into ``target``: (rows, words), -100 if there is none.

    The prediction for a word is that of its first token. ``places`` are the positions of those tokens, -1 for words
    that were cut off.

    Raises:
        UnreadableError: There are no words, or not one tag for each word.
        LabelsMismatchError: The model does not have a tag.
        TaskMismatchError: The model does not predict a tag for each token.
        TokenizerMissingError: The model has no tokenizer.
        BadOptionError: The option ``length`` is beyond the model's positions.
    """
    options = job["program"]["options"]
    check_task(job, options, task="token-classification", rank=3)
    sentences = _read_lists(data, "words", options, WORDS)
    if sentences is None:
        raise UnreadableError(f"no column of words ({', '.join(WORDS)}); the data have {', '.join(data)}")
    sentences = [[str(word) for word in words] or [""] for words in sentences]
    tokens = Tokens(job, options, fast=True)
    encoded = tokens.encode(sentences, is_split_into_words=True)
    feeds = tokens.feed(encoded)
    tags = _read_lists(data, "target", options, TAGS)
    if tags is None:
        return feeds, {}
    names = options["classes"] or list_labels(tokens.config)
    numbers = _number_tags(sentences, tags, names)
    places = [_find_first(encoded.word_ids(row), len(numbers[row])) for row in range(len(sentences))]
    table = np.array(names or [], dtype=np.str_)
    target, first = pack(numbers, fill=NONE, dtype=np.int64), pack(places, fill=-1, dtype=np.int64)
    return feeds, {"target": target, "places": first, "table_tags": table}


def _read_lists(data: Arrays, name: str, options: dict[str, Any], aliases: tuple[str, ...]) -> list[list[Any]] | None:
    """Return a column of lists; text is split at white space, for files without lists."""
    column = find_array(data, name, arrays=options["arrays"], aliases=aliases)
    if column is None:
        return None
    rows: list[list[Any]] = []
    for number, row in enumerate(column):
        if isinstance(row, str):
            rows.append(row.split())
        elif isinstance(row, list | tuple | np.ndarray):
            rows.append(np.asarray(row).tolist() if isinstance(row, np.ndarray) else list(row))
        else:
            raise UnreadableError(f"row {number} of the column {name!r} holds {str(row)[:40]!r}, which is not a list")
    return rows


def _number_tags(sentences: list[list[str]], tags: list[list[Any]], names: list[str] | None) -> list[list[int]]:
    """Return the tags of each sentence as numbers of the model's classes."""
    known: dict[Any, int] = {str(name): number for number, name in enumerate(names or [])}
    numbers = []
    for row, (words, own) in enumerate(zip(sentences, tags, strict=True)):
        if len(own) != len(words) and (own or words != [""]):
            raise UnreadableError(f"row {row} has {len(words)} words and {len(own)} tags")
        if text := next((tag for tag in own if isinstance(tag, str) and tag not in known), None):
            tags_known = ", ".join(map(repr, [*known][:_SHOWN])) + (", …" if len(known) > _SHOWN else "")
            what = f"row {row} has the tag {text!r}, which is none of the model's {len(known)}"
            raise LabelsMismatchError(f"{what}: {tags_known}" if known else what)
        numbered = [known[tag] if isinstance(tag, str) else int(tag) for tag in own]
        if names and (strange := [tag for tag in numbered if tag != NONE and not 0 <= tag < len(names)]):
            raise LabelsMismatchError(f"row {row} has the tag {strange[0]}; the model's are 0 to {len(names) - 1}")
        numbers.append(numbered)
    return numbers


def _find_first(words: list[int | None], count: int) -> list[int]:
    """Return the first token of each word, -1 if it has none."""
    places = [-1] * count
    for at, word in enumerate(words):
        if word is not None and word < count and places[word] < 0:
            places[word] = at
    return places


def count_rows(data: Arrays, options: dict[str, Any]) -> None:
    """Return None: sentences are neither right nor wrong."""


def decode(outputs: Arrays, options: dict[str, Any]) -> Array:
    """Return the tag of each token, as (rows, tokens); -1 if the largest score is not finite."""
    scores = find_output(outputs, options["output"], rank=3)
    return choose_best(scores)


def check(outputs: Arrays, targets: Arrays, options: dict[str, Any]) -> None:
    """Refuse tags that are not among those that the model returned (``LabelsMismatchError``)."""
    count, most = find_output(outputs, options["output"], rank=3).shape[-1], int(targets["target"].max(initial=0))
    if most >= count:
        raise LabelsMismatchError(f"tag {most} is not one of the model's {count} tags (0 to {count - 1})")
    if len(targets["table_tags"]) not in {0, count}:
        raise LabelsMismatchError(f"{len(targets['table_tags'])} names of tags are known, and the model has {count}")


def _choose_words(predictions: Array, targets: Arrays) -> Array:
    """Return the predicted tag of each word, -1 for a word without a token."""
    places = targets["places"]
    seen = (places >= 0) & (places < predictions.shape[1])
    found = np.take_along_axis(predictions, np.where(seen, places, 0), axis=1)
    return np.where(seen, found, -1)


def describe_metric(targets: Arrays, options: dict[str, Any]) -> dict[str, str]:  # noqa: ARG001 - part of every program
    """Return the name of the metric: the F1 of entities, or the accuracy of words if the tags are not entities."""
    return {"name": METRIC if has_entities(targets["table_tags"]) else "word_accuracy"}


def find_doubt(outputs: Arrays, targets: Arrays, options: dict[str, Any]) -> str | None:
    """Return a doubt if the words are right no more often than with one tag for all of them."""
    words, labels = _choose_words(decode(outputs, options), targets), targets["target"]
    real = labels != NONE
    count, right = real.sum(), (words[real] == labels[real]).sum()
    most = np.unique(labels[real], return_counts=True)[1].max(initial=0)
    if right > most or most == count:  # also true if no word has a tag
        return None
    often = f"the most frequent tag would be in {most / count:.1%}"
    found = f"the predictions are right for {right / count:.1%} of the words, and {often}"
    return f"{found}: check that the tags are the model's"


def tally(predictions: Array, targets: Arrays, options: dict[str, Any]) -> Array:
    """Return for each sentence the numbers of right, predicted and true entities; or of right words."""
    names = targets["table_tags"]
    if not has_entities(names):
        return _tally_words(predictions, targets, options)
    rows = []
    for given, wanted in zip(_choose_words(predictions, targets), targets["target"], strict=True):
        real = wanted != NONE
        tags = (["O" if tag < 0 else str(names[tag]) for tag in part[real]] for part in (given, wanted))
        found, own = (set(list_entities(part)) for part in tags)
        rows.append((len(found & own), len(found), len(own)))
    return np.array(rows, dtype=np.float64)


def _tally_words(predictions: Array, targets: Arrays, options: dict[str, Any]) -> Array:  # noqa: ARG001 - as tally
    real = targets["target"] != NONE
    right = (_choose_words(predictions, targets) == targets["target"]) & real
    return np.stack([right.sum(axis=1), real.sum(axis=1), real.sum(axis=1)], axis=1).astype(np.float64)


def total(sums: Array, options: dict[str, Any]) -> float:  # noqa: ARG001 - part of every program
    """Return the F1 from the sums over sentences; for words it equals their accuracy."""
    return measure_f1(*sums)


_OWN = SumMetric(tally=tally, total=total)
metric, score = _OWN.metric, _OWN.score

METRICS = {"word_accuracy": SumMetric(tally=_tally_words, total=lambda sums, _: measure_share(sums[0], sums[1]))}
"""The share of words that are right, for tags of any kind."""
