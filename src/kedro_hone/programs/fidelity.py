"""No labels: how often a candidate answers as the source model does. One file, numpy only."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]

METRIC = "agreement"
HIGHER_IS_BETTER = True
NEEDS_TARGETS = False
"""The source's outputs stand in for the targets."""

OPTIONS: dict[str, Any] = {
    "arrays": {},  # input of the model: the name of its array in the data
    "compare": "values",  # or "argmax": only the largest number of each row counts
    "tolerance": 0.05,  # with "values": the largest relative L2 error of a row that agrees
}


class UnreadableError(ValueError):
    """The data are not what this program expects."""

    slug = "data-unreadable"


def prepare(data: dict[str, Array], job: dict[str, Any]) -> tuple[dict[str, Array], dict[str, Array]]:
    """Take the arrays as they are.

    Args:
        data: Arrays by name, rows first.
        job: ``input`` with the model's ``inputs``, and ``program`` with the ``options``.

    Returns:
        The feeds by input, and no targets.

    Raises:
        UnreadableError: An input has no array.
    """
    arrays = (OPTIONS | job["program"]["options"])["arrays"]
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


def decode(outputs: dict[str, Array], options: dict[str, Any]) -> dict[str, Array]:  # noqa: ARG001 - part of every program
    """Return the outputs as they are: all of them are compared."""
    return outputs


def score(predictions: dict[str, Array], targets: dict[str, Array], options: dict[str, Any]) -> Array:
    """Return 1 for each row on which every output agrees with the source's, else 0.

    Args:
        predictions: A candidate's outputs.
        targets: The source's outputs.
        options: This program's options.

    Returns:
        One number for each row.
    """
    options = OPTIONS | options
    agrees = np.ones(len(next(iter(targets.values()))), dtype=bool)
    for name, target in targets.items():
        wanted = target.reshape(len(target), -1)
        given = predictions[name].reshape(len(target), -1)
        if wanted.dtype.kind == "U":
            agrees &= (given == wanted).all(axis=1)
        elif options["compare"] == "argmax":
            agrees &= given.argmax(axis=1) == wanted.argmax(axis=1)
            agrees &= np.isfinite(given.astype(np.float64)).all(axis=1)
        elif wanted.dtype.kind in "biu":
            agrees &= (given == wanted).all(axis=1)
        else:
            agrees &= measure_error(given, wanted) <= options["tolerance"]
    return agrees.astype(np.float64)


def measure_error(given: Array, wanted: Array) -> Array:
    """Return the relative L2 error of each row; NaN or infinite where a number is not finite."""
    given, wanted = given.astype(np.float64), wanted.astype(np.float64)
    smallest = np.finfo(np.float64).tiny
    with np.errstate(invalid="ignore", over="ignore"):
        error = np.linalg.norm(given - wanted, axis=1) / np.maximum(np.linalg.norm(wanted, axis=1), smallest)
    return np.asarray(error)


def metric(predictions: dict[str, Array], targets: dict[str, Array], options: dict[str, Any]) -> float:
    """Return the share of rows that agree."""
    return float(score(predictions, targets, options).mean())
