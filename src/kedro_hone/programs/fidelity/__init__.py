"""An array for each input and no labels: how close a candidate's outputs are to the source model's.

Workers of any toolchain may run it: it imports numpy only.
"""

from __future__ import annotations

import re
from typing import Any

import numpy as np

from ..shared.arrays import Array
from ..shared.errors import BadOptionError, UnreadableError

METRIC = "agreement"
HIGHER_IS_BETTER = True
NEEDS_TARGETS = False
"""The source's outputs are used as the targets."""

OPTIONS: dict[str, Any] = {
    "arrays": {},  # input of the model: the name of its array in the data
    "compare": None,  # "cosine", "l2" or "argmax"; empty: see choose_comparison
}

NAMES = {
    "cosine": "cosine_similarity",
    "l2": "l2_similarity",
    "argmax": "argmax_agreement",
    "equal": "agreement",
}
"""What the metric is called, by the comparison; ``similarity`` where outputs are compared in several ways."""

CLASS_WORDS = frozenset({"logit", "logits", "prob", "probs", "probability", "probabilities", "softmax"})
"""Words in the name of an output that holds one number for each class."""


def prepare(data: dict[str, Array], job: dict[str, Any]) -> tuple[dict[str, Array], dict[str, Array]]:
    """Take the arrays as they are.

    Args:
        data: Arrays by name, rows first.
        job: ``input`` with the model's ``inputs``, and ``program`` with the ``options``.

    Returns:
        The feeds by input, and no targets.

    Raises:
        UnreadableError: An input has no array.
        BadOptionError: The option ``compare`` is not known.
    """
    options = OPTIONS | job["program"]["options"]
    arrays, known = options["arrays"], ("cosine", "l2", "argmax")
    if options["compare"] not in (None, *known):
        raise BadOptionError(f"compare is {options['compare']!r}, and there are {', '.join(known)}")
    specs = job["input"]["inputs"]
    feeds = {}
    for spec in specs:
        name = arrays.get(spec["name"], spec["name"])
        if name not in data and len(specs) == len(data) == 1 and spec["name"] not in arrays:
            name = next(iter(data))  # there is no doubt which one is meant
        if name not in data:
            raise UnreadableError(f"no array for the model's input {spec['name']!r}; the data have {', '.join(data)}")
        feeds[spec["name"]] = data[name]
    return feeds, {}


def choose_comparison(name: str, dtype: str, shape: tuple[int, ...]) -> str:
    """Choose how an output is compared where the option ``compare`` is empty, from its interface alone.

    In this order: what holds no floating-point numbers is ``equal`` or not; one number a row is compared by ``l2``;
    an output with a word such as ``logits`` or ``probabilities`` in its name by ``argmax``; anything else, such as
    embeddings and hidden states, by ``cosine``.

    Args:
        name: The output's name.
        dtype: Its element type, as numpy names it.
        shape: Its shape, rows first.

    Returns:
        ``equal``, ``l2``, ``argmax`` or ``cosine``.
    """
    if np.dtype(dtype).kind not in "fc":
        return "equal"
    if int(np.prod(shape[1:])) == 1:
        return "l2"
    words = set(re.split(r"[^a-z]+", name.lower()))
    return "argmax" if words & CLASS_WORDS and shape[find_class_axis(len(shape))] > 1 else "cosine"


def find_class_axis(dimensions: int) -> int:
    """Return the axis of the classes: the last one, or the second one of images (four dimensions or more)."""
    return 1 if dimensions > 3 else dimensions - 1


def _choose_all(targets: dict[str, Array], options: dict[str, Any]) -> dict[str, str]:
    """Return how each output is compared."""
    asked = (OPTIONS | options)["compare"]
    chosen = {}
    for name, target in targets.items():
        chosen[name] = asked or choose_comparison(name, str(target.dtype), target.shape)
        if target.dtype.kind not in "biufc":
            chosen[name] = "equal"  # text has no direction and no length
        if chosen[name] == "argmax" and (target.ndim < 2 or target.shape[find_class_axis(target.ndim)] < 2):
            raise BadOptionError(f"compare is 'argmax', and {name!r} of shape {target.shape} has one number to choose")
    return chosen


def describe_metric(targets: dict[str, Array], options: dict[str, Any]) -> dict[str, str]:
    """Return the metric's name, and its kind: ``proportion`` where each row is right or wrong, else ``mean``."""
    chosen = _choose_all(targets, options)
    ways = set(chosen.values())
    once = all(_count_decisions(targets[name], how) == 1 for name, how in chosen.items())
    return {"name": NAMES[ways.pop()] if len(ways) == 1 else "similarity", "kind": "proportion" if once else "mean"}


def _count_decisions(target: Array, how: str) -> int:
    """Return how many things of a row can be right or wrong; 0 where it is a matter of degree."""
    numbers = int(np.prod(target.shape[1:]))
    if how == "argmax":
        return numbers // int(target.shape[find_class_axis(target.ndim)])
    return numbers if how == "equal" else 0


def decode(outputs: dict[str, Array], options: dict[str, Any]) -> dict[str, Array]:  # noqa: ARG001 - part of every program
    """Return the outputs as they are: all of them are compared."""
    return outputs


def score(predictions: dict[str, Array], targets: dict[str, Array], options: dict[str, Any]) -> Array:
    """Return how similar each row is to the source's, from 0 to 1; the least similar output of a row counts.

    Args:
        predictions: A candidate's outputs.
        targets: The source's outputs.
        options: This program's options.

    Returns:
        One number for each row; 0 for an output with numbers that are not finite.

    Raises:
        BadOptionError: ``compare`` is ``argmax``, and an output has nothing to choose from.
    """
    rows = [MEASURES[how](predictions[name], targets[name]) for name, how in _choose_all(targets, options).items()]
    return np.asarray(np.min(rows, axis=0), dtype=np.float64)


def measure_cosine(given: Array, wanted: Array) -> Array:
    """Return the cosine of each row, lowered where the two rows are not equally long.

    ``2 a·b / (|a|² + |b|²)`` is the cosine where both are equally long, and 0.8 where one is twice the other: the
    cosine alone would find nothing wrong with a candidate that returns half of everything.

    Args:
        given: A candidate's output, rows first.
        wanted: The source's.

    Returns:
        From 0 (at right angles, opposite, or not finite) to 1.
    """
    given, wanted = _flatten(given), _flatten(wanted)
    with np.errstate(invalid="ignore", over="ignore", divide="ignore"):
        lengths = (given**2).sum(axis=1) + (wanted**2).sum(axis=1)
        cosine = np.where(lengths == 0, 1.0, 2 * (given * wanted).sum(axis=1) / lengths)
    return _bound(cosine)


def measure_l2(given: Array, wanted: Array) -> Array:
    """Return 1 less the relative L2 error of each row.

    The error is relative to the length of the source's row, or to the root mean square of all rows' lengths where that
    is more: a row that happens to be near 0 has no large relative error of its own.

    Args:
        given: A candidate's output, rows first.
        wanted: The source's.

    Returns:
        From 0 (an error as large as the row, or more, or not finite) to 1.
    """
    given, wanted = _flatten(given), _flatten(wanted)
    with np.errstate(invalid="ignore", over="ignore"):
        lengths = np.linalg.norm(wanted, axis=1)
        scale = np.maximum(lengths, np.sqrt(np.mean(lengths**2)))
        error = np.linalg.norm(given - wanted, axis=1) / np.maximum(scale, np.finfo(np.float64).tiny)
    return _bound(1 - error)


def measure_argmax(given: Array, wanted: Array) -> Array:
    """Return the share of each row's positions whose largest number is at the same class.

    Args:
        given: A candidate's output, rows first.
        wanted: The source's.

    Returns:
        From 0 to 1; a position with numbers that are not finite is wrong.
    """
    axis = find_class_axis(wanted.ndim)
    right = (given.argmax(axis=axis) == wanted.argmax(axis=axis)) & np.isfinite(given).all(axis=axis)
    return np.asarray(right.reshape(len(right), -1).mean(axis=1))


def measure_equal(given: Array, wanted: Array) -> Array:
    """Return the share of each row's elements that are equal."""
    return np.asarray((given == wanted).reshape(len(wanted), -1).mean(axis=1))


MEASURES = {"cosine": measure_cosine, "l2": measure_l2, "argmax": measure_argmax, "equal": measure_equal}


def _flatten(output: Array) -> Array:
    return output.reshape(len(output), -1).astype(np.float64)


def _bound(similarity: Array) -> Array:
    return np.asarray(np.clip(np.where(np.isfinite(similarity), similarity, 0.0), 0.0, 1.0))


def metric(predictions: dict[str, Array], targets: dict[str, Array], options: dict[str, Any]) -> float:
    """Return the mean similarity of the rows."""
    return float(score(predictions, targets, options).mean())
