"""Whether the slices of the gate split have rows enough to prove their limit, before anything is built."""

from __future__ import annotations

import math
import sys
from collections.abc import Sequence

from hone_runtime.errors import HoneError
from hone_runtime.text import open_logger
from hone_runtime.values.samples import Score
from hone_runtime.values.slices import SliceRows
from kedro_hone.core.stats.balanced import smallest_provable_balanced_drop
from kedro_hone.core.stats.intervals import UNITS, needed_rows, smallest_provable_drop
from kedro_hone.core.stats.levels import share_among_slices, share_confidence
from kedro_hone.recipe.schema import Recipe
from kedro_hone.search.scores import may_lose_one

logger = open_logger(__name__)


def check_slices(
    slices: Sequence[SliceRows],
    recipe: Recipe,
    *,
    classes: Sequence[Sequence[int]] = (),
    score: Score | None = None,
) -> None:
    """Refuse slices whose rows cannot prove the limit even if nothing is lost; warn if they probably cannot.

    Args:
        slices: The slices of the gate split.
        recipe: Contains the limit, ``gates.slices``; without it, nothing is checked.
        classes: For a mean over classes, the number of rows of each class in each slice; may be empty.
        score: As for ``check_provable``.

    Raises:
        HoneError: ``gate-unprovable``, with the name of the smallest slice and the number of rows needed.
    """
    limit, finalists = recipe.gates.slices, recipe.confirm.finalists
    if limit is None or not slices:
        return
    shared = share_confidence(recipe.gates.confidence, finalists=finalists)
    level = share_among_slices(shared, slices=len(slices))
    by_rows = score is None or score.kind in {"proportion", "balanced"}
    span = 1.0 if score is None else score.span
    least = 1 if by_rows else UNITS
    if span is None:
        return

    shares = [_find_share(one, classes[at] if classes else (), level) for at, one in enumerate(slices)]
    small = [at for at, share in enumerate(shares) if span * share >= limit.drop or slices[at].n < least]
    if not small:
        return
    worst = max(small, key=shares.__getitem__)
    one, bound = slices[worst], round_up(span * shares[worst])
    needed = max(least, needed_rows(max(limit.drop / span, sys.float_info.epsilon), level))
    confidence = _format_confidence(recipe, len(slices))
    count = len(small) - 1
    others = f" {count} other slice{'s are' if count > 1 else ' is'} too small as well." if count else ""
    why = f"With so few rows its interval still reaches {bound} {confidence}.{others}"
    more = f"Use at least {needed} rows of each slice, or group rare values in the column"
    hint = f"{more}; or set hone.gates.slices.drop above {bound}."
    if one.n < least:
        why, hint = f"An interval of this metric needs {least} rows at least {confidence}.{others}", f"{more}."
    loses_one = score is None or may_lose_one(higher_is_better=score.higher_is_better, source=score.value)
    named = f"{one.n} gate rows of the slice {limit.by} = {one.name}"
    what = f"prove a drop under {limit.drop:g}, even if nothing is lost."
    if by_rows or one.n < least or (loses_one and shares[worst] >= limit.drop):
        raise HoneError("gate-unprovable", f"{named} cannot {what}", why=why, hint=hint)
    logger.warning("warning   %s probably cannot %s %s %s", named, what, why, hint)


def _find_share(one: SliceRows, classes: Sequence[int], level: float) -> float:
    """Return the smallest drop that a slice can prove, as a share of what a row can lose."""
    return smallest_provable_balanced_drop(classes, level) if len(classes) > 1 else smallest_provable_drop(one.n, level)


def _format_confidence(recipe: Recipe, count: int) -> str:
    """Return the confidence of the recipe, and what shares it, in brackets."""
    sizes = ((recipe.confirm.finalists, "finalists"), (count, "slices"))
    parts = [f"{number} {name}" for number, name in sizes if number > 1]
    shared_by = f", shared by {' and '.join(parts)}" if parts else ""
    return f"(confidence {recipe.gates.confidence:g}{shared_by})"


def round_up(value: float) -> str:
    """Return a number with four digits that is not below it: a limit that is rounded down cannot be proved."""
    scale = 10.0 ** (3 - math.floor(math.log10(value)))
    return f"{math.ceil(value * scale) / scale:g}"
