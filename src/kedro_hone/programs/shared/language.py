"""Language models: the predicted words of a vocabulary at each position, and the loss of the correct ones."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np

from .arrays import Array, Arrays
from .errors import LabelsMismatchError
from .ratios import measure_share, soften
from .text import find_output

NONE = -100  # the target of a position where nothing is predicted
LARGE = 4e9  # bytes of outputs from which a warning is printed


def warn_of_size(shape: tuple[int, ...], job: dict[str, Any], config: dict[str, Any]) -> None:
    """Warn if the outputs of a split, a number for each token and word of the vocabulary, are very large."""
    shapes = [spec["shape"] for spec in job["input"].get("outputs", []) if len(spec["shape"]) == 3]
    words = next((each[2] for each in shapes if isinstance(each[2], int)), config.get("vocab_size") or 0)
    size = 4.0 * shape[0] * shape[1] * words
    if size > LARGE:
        fewer = "give it fewer or shorter rows"
        warnings.warn(
            f"a model's outputs for this split take {size / 1e9:.1f} GB of disk and memory: {fewer}", stacklevel=2
        )


def decode(outputs: Arrays, options: dict[str, Any]) -> Arrays:
    """Return ``logits`` as (rows, tokens, words), the ``best`` words (-1 if not finite), and the log-sum-exp."""
    logits = find_output(outputs, options["output"], rank=3)
    norm = soften(logits)
    return {"logits": logits, "best": np.where(np.isfinite(norm), logits.argmax(axis=-1), -1), "norm": norm}


def check(outputs: Arrays, targets: Arrays, options: dict[str, Any]) -> None:
    """Refuse targets that are not in the model's vocabulary (``LabelsMismatchError``)."""
    words, most = find_output(outputs, options["output"], rank=3).shape[-1], int(targets["target"].max(initial=0))
    if most >= words:
        raise LabelsMismatchError(
            f"token {most} is not in the model's vocabulary of {words}: another tokenizer made it"
        )


def tally(predictions: Arrays, targets: Arrays, options: dict[str, Any]) -> Array:  # noqa: ARG001 - part of every program
    """Return for each row the loss of its targets in nats, the number predicted correctly, and the number of all."""
    wanted = targets["target"][:, : predictions["best"].shape[1]]  # rows may be cut to a shape
    columns = slice(0, wanted.shape[1])
    real, chosen = wanted != NONE, np.where(wanted == NONE, 0, wanted)
    found = np.take_along_axis(predictions["logits"][:, columns], chosen[..., None], axis=-1)[..., 0]
    cost = np.where(real, predictions["norm"][:, columns] - found, 0.0).sum(axis=1)
    right = ((predictions["best"][:, columns] == wanted) & real).sum(axis=1)
    return np.stack([cost, right, real.sum(axis=1)], axis=1).astype(np.float64)


def measure_perplexity(sums: Array, options: dict[str, Any]) -> float:  # noqa: ARG001 - as total
    """Return the exponential of the mean loss of a target, from the sums over rows."""
    with np.errstate(over="ignore"):
        return float(np.exp(measure_share(sums[0], sums[2])))


def measure_accuracy(sums: Array, options: dict[str, Any]) -> float:  # noqa: ARG001 - as total
    """Return the share of targets that are predicted correctly, from the sums over rows."""
    return measure_share(sums[1], sums[2])
