"""The judgement of one gate on one candidate: one record for all gates, in the decision and in the evidence."""

from __future__ import annotations

import math
from enum import StrEnum
from typing import Annotated

from pydantic import BeforeValidator

from kedro_hone.core.values.base import Value


def _drop_infinite(number: float | None) -> float | None:
    """JSON has neither NaN nor infinity: a number that is not finite was not measured."""
    return number if number is not None and math.isfinite(number) else None


Number = Annotated[float | None, BeforeValidator(_drop_infinite)]
"""A finite number, or None where nothing was measured."""


class Judged(StrEnum):
    """Whether a candidate holds a gate."""

    HOLDS = "holds"
    FAILS = "fails"
    UNDECIDED = "undecided"
    NOT_ASKED = "not asked"


class Judgement(Value):
    """The judgement of one gate on one candidate, or on the source where it stays.

    Attributes:
        name: The gate's name, which is its key in the recipe's section ``gates``.
        candidate: The candidate's id; ``source`` for the source model.
        judgement: ``holds``, ``fails``, ``undecided`` (what was measured cannot tell), or ``not asked`` (the recipe
            sets no limit, or the candidate could not win any more).
        limit: The recipe's limit, or None.
        measured: What is compared with the limit, or None where it was not measured.
        low: The lower end of its interval, or None where it has none.
        high: The upper end of its interval, or None where it has none.
        unit: The unit of all four, such as ``ms``, ``MB``, ``times`` or the metric's name.
        shape: The recipe's name of the shape, or an empty string where the gate is not about a shape.
        reason: One sentence.
    """

    name: str
    candidate: str
    judgement: Judged
    limit: Number = None
    measured: Number = None
    low: Number = None
    high: Number = None
    unit: str = ""
    shape: str = ""
    reason: str = ""
