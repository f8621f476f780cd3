"""An array for each input, without labels: how close a candidate's outputs are to the source model's."""

from __future__ import annotations

import re
from typing import Any

import numpy as np

from ..shared.arrays import Array, Arrays, read_inputs
from ..shared.errors import BadOptionError
from ..shared.ratios import RowMetric
from ..shared.similarity import find_class_axis, measure_similarity

METRIC = "agreement"
HIGHER_IS_BETTER = True
NEEDS_TARGETS = False  # the source's outputs stand in for them

OPTIONS: dict[str, Any] = {
    "arrays": {},  # input of the model: the name of its array in the data
    "compare": None,  # "cosine", "l2" or "argmax"; empty: see choose_comparison
}

NAMES = {"cosine": "cosine_similarity", "l2": "l2_similarity", "argmax": "argmax_agreement", "equal": "agreement"}
"""The name of the metric, by the comparison, if all outputs are compared in one way."""

CLASS_WORDS = frozenset({"logit", "logits", "prob", "probs", "probability", "probabilities", "softmax"})
"""Words in the name of an output with one number for each class."""


def prepare(data: Arrays, job: dict[str, Any]) -> tuple[Arrays, Arrays]:
    """Return the unchanged arrays as feeds by input; there are no targets.

    Raises:
        UnreadableError: An input has no array.
        BadOptionError: The option ``compare`` is unknown.
    """
    options, known = job["program"]["options"], ("cosine", "l2", "argmax")
    if options["compare"] not in (None, *known):
        raise BadOptionError(f"compare is {options['compare']!r}, and there are {', '.join(known)}")
    only = tuple(data) if len(data) == 1 else ()  # the only array is unambiguous
    return read_inputs(data, job["input"]["inputs"], options["arrays"], kind="array", aliases=only), {}


def choose_comparison(name: str, dtype: str, shape: tuple[int, ...]) -> str:
    """Choose how an output is compared if the option ``compare`` is empty, only from its interface.

    In this order: outputs without floating-point numbers are compared by ``equal``; one number per row by ``l2``; an
    output with a word such as ``logits`` or ``probabilities`` in its name by ``argmax``; anything else, such as
    embeddings and hidden states, by ``cosine``. The type is as numpy names it, and the shape has rows first.
    """
    if np.dtype(dtype).kind not in "fc":
        return "equal"
    if int(np.prod(shape[1:])) == 1:
        return "l2"
    words = set(re.split(r"[^a-z]+", name.lower()))
    return "argmax" if words & CLASS_WORDS and shape[find_class_axis(shape)] > 1 else "cosine"


def _choose_all(targets: Arrays, options: dict[str, Any]) -> dict[str, str]:
    """Return how each output is compared; an output without numbers, such as text, has no direction and no length."""
    chosen = {}
    for name, target in targets.items():
        asked = options["compare"] if target.dtype.kind in "biufc" else "equal"
        chosen[name] = asked or choose_comparison(name, str(target.dtype), target.shape)
        if chosen[name] == "argmax" and (target.ndim < 2 or target.shape[find_class_axis(target.shape)] < 2):
            raise BadOptionError(f"compare is 'argmax', and {name!r} of shape {target.shape} has one number to choose")
    return chosen


def describe_metric(targets: Arrays, options: dict[str, Any]) -> dict[str, str]:
    """Return the metric's name, and its kind: ``proportion`` if each row is right or wrong, otherwise ``mean``."""
    names, kind = set(), "proportion"
    for output, how in _choose_all(targets, options).items():
        names.add(NAMES[how])
        shape = targets[output].shape
        classes = shape[find_class_axis(shape)] if how == "argmax" else 1
        if how not in {"argmax", "equal"} or np.prod(shape[1:]) != classes:  # graded, or several predictions per row
            kind = "mean"
    return {"name": names.pop() if len(names) == 1 else "similarity", "kind": kind}


def decode(outputs: Arrays, options: dict[str, Any]) -> Arrays:  # noqa: ARG001 - part of every program
    """Return the unchanged outputs: all of them are compared."""
    return outputs


def score(predictions: Arrays, targets: Arrays, options: dict[str, Any]) -> Array:
    """Return how similar each row of a candidate's outputs is to the source's (``targets``), from 0 to 1.

    The least similar output of a row counts. Equal infinities are equal, and so are two NaN; the score of a row with
    other non-finite values is 0. With ``cosine``, the least similar part of an output (a channel, a column) also
    counts, on its own scale.

    Raises:
        BadOptionError: ``compare`` is ``argmax``, and an output has nothing to choose from.
    """
    chosen = _choose_all(targets, options)
    rows = [measure_similarity(predictions[name], targets[name], how) for name, how in chosen.items()]
    return np.asarray(np.min(rows, axis=0), dtype=np.float64)


metric = RowMetric(score=score).metric
