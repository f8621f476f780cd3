"""The judgement of one gate on one candidate: one type for all gates, in the decision and in the evidence."""

from __future__ import annotations

import math
from enum import StrEnum
from typing import Annotated

from pydantic import BeforeValidator, Field

from hone_runtime.values.base import Value

Number = Annotated[float | None, BeforeValidator(lambda n: n if n is not None and math.isfinite(n) else None)]
"""A finite number, or None if nothing was measured: JSON has neither NaN nor infinity."""


class GateOutcome(StrEnum):
    """Whether a candidate passes a gate; undecided if the measurement is not precise enough."""

    HOLDS = "holds"
    FAILS = "fails"
    UNDECIDED = "undecided"
    NOT_ASKED = "not asked"


class Judgement(Value):
    """The judgement of one gate on one candidate, or on the source if no winner replaces it."""

    name: str = Field(description="The gate's name, which is its key in the recipe's section `gates`.")
    candidate: str = Field(description="The candidate's id; `source` for the source model.")
    judgement: GateOutcome = Field(
        description="`not asked`: there is no limit, or the candidate could not win any more."
    )
    limit: Number = Field(None, description="The recipe's limit, or None.")
    measured: Number = Field(None, description="What is compared with the limit, or None where it was not measured.")
    low: Number = Field(None, description="The lower end of its interval, or None where it has none.")
    high: Number = Field(None, description="The upper end of its interval, or None where it has none.")
    unit: str = Field("", description="The unit of all four, such as `ms`, `MB`, `times` or the metric's name.")
    shape: str = Field("", description="The recipe's name of the shape; empty where the gate is not about a shape.")
    reason: str = Field("", description="One sentence.")
    against: str = Field("", description="The alias whose version it was compared with; empty: with the source.")
