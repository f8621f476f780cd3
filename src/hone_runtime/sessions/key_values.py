"""The names of a language model's inputs, and the check of a cache of keys and values.

Toolchains' workers import it as ``hone_runtime.sessions.key_values``. NumPy only.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable

IDS, MASK, POSITIONS = "input_ids", "attention_mask", "position_ids"
EXACT = 1e-3
"""Allowed difference of logits, as a part of the largest one: with a cache, additions have another order."""
ROUNDED = 0.15
"""Allowed difference in bf16, or with quantized activations, where each step rounds differently since it has its own
ranges. It is a part of the logits' spread over the vocabulary (root mean square). The logits of a wrong cache differ by
about their whole spread."""
LEAST = 3
"""The number of columns that the check needs."""


def make_rows(vocabulary: int, limit: int) -> dict[str, np.ndarray[Any, Any]]:
    """Return three rows of random tokens with their positions; the first row is padded on the left.

    Args:
        vocabulary: The number of tokens in the vocabulary.
        limit: The largest number of columns that the model accepts; 0 for no limit.
    """
    ids = np.random.default_rng(1).integers(0, max(vocabulary, 2), (3, min(11, limit or 11)))
    mask = np.ones_like(ids)
    mask[0, : ids.shape[1] // 3] = 0
    return {IDS: ids, MASK: mask, POSITIONS: np.maximum(mask.cumsum(1) - 1, 0)}


def find_fault(
    start: Callable[[], Any],
    feeds: dict[str, np.ndarray[Any, Any]],
    wanted: np.ndarray[Any, Any],
    *,
    whose: str,
    rounds: bool,
) -> str | None:
    """Compare the logits of a cache with given logits: in one step, and column by column with reordered rows.

    Args:
        start: Starts sequences that grow by ``advance(feeds, order)``, like the ``start`` of a session.
        feeds: The result of ``make_rows``; without positions, these are counted from the first column.
        wanted: The expected logits (rows, columns, words).
        whose: The origin of these logits, for the message.
        rounds: Whether logits of real tokens may differ by ``ROUNDED``, instead of ``EXACT``.

    Returns:
        The fault; None if all agree.
    """
    real, size = feeds[MASK] != 0, feeds[IDS].shape[1]
    for how, cuts in (("a run at once", [size]), ("steps with the cache", list(range(max(1, size // 2), size + 1)))):
        pair = _replace_non_finite(_advance(start(), feeds, cuts)[real], wanted[real])
        with np.errstate(invalid="ignore", over="ignore"):  # different infinities and NaN are a fault, too
            error, whole = _measure(*pair, rounds=rounds)
        if not error <= whole * (ROUNDED if rounds else EXACT):
            return f"{how} gave logits that differ from {whose} by {error:.3g} of {whole:.3g}"
    return None


def _replace_non_finite(found: np.ndarray[Any, Any], wanted: np.ndarray[Any, Any]) -> list[np.ndarray[Any, Any]]:
    """Return logits with 0 in place of equal infinities (as of words that are not allowed) and of equal NaN."""
    same = ~np.isfinite(wanted) & ((found == wanted) | (np.isnan(found) & np.isnan(wanted)))
    return [np.where(same, each.dtype.type(0), each) for each in (found, wanted)]


def _measure(found: np.ndarray[Any, Any], wanted: np.ndarray[Any, Any], *, rounds: bool) -> tuple[float, float]:
    """Return the difference of logits (tokens, words), and the scale for it."""
    if not rounds:
        return float(np.abs(found - wanted).max()), float(np.abs(wanted[np.isfinite(wanted)]).max(initial=0.0))
    found, wanted = (each - each.mean(1, keepdims=True) for each in (found, wanted))
    return float(np.sqrt(np.square(found - wanted).mean())), float(np.sqrt(np.square(wanted).mean()))


def _advance(kept: Any, feeds: dict[str, np.ndarray[Any, Any]], cuts: list[int]) -> np.ndarray[Any, Any]:
    """Return the logits of the columns up to each cut; each step gets the rows in another order."""
    found, start, rows = [], 0, np.arange(len(feeds[IDS]))
    for end in cuts:
        order = np.roll(np.arange(len(rows)), 1) if start else None
        rows = rows if order is None else rows[order]
        parts = {name: array[:, (0 if name == MASK else start) : end][rows] for name, array in feeds.items()}
        logits = kept.advance(parts, order)["logits"]
        back = np.empty_like(logits)
        back[rows] = logits
        found.append(back)
        start = end
    return np.concatenate(found, 1)
