"""The recipe's sections about measuring: the race, and the confirmation of its finalists."""

from __future__ import annotations

from typing import Annotated

from pydantic import AfterValidator, Field, model_validator

from kedro_hone.core.stats.plan import LOOKS, check_looks
from kedro_hone.recipe.bounds import Section


class RaceSection(Section):
    """The search for the fastest."""

    objective: str = Field(
        "worst",
        description="worst or mean of the shapes, or the name of a shape; latency or throughput: the worst of the "
        "shapes with one client, or with several.",
    )
    latency_budget_ms: float | None = Field(
        None,
        gt=0,
        exclude_if=lambda value: value is None,
        description="Most throughput with this tail: at each shape with several clients, the 99th percentile of a call "
        "may not pass it, in ms. It is `gates.latency_p99_ms` at these shapes, which then decide.",
    )
    weights: dict[str, float] = Field(default_factory=dict, description="Weight of each shape, for mean.")
    seconds: float = Field(60.0, gt=0, description="Time limit for measuring; the race then ends with the best so far.")
    rounds: int = Field(30, ge=5, le=1_000_000, description="Most rounds.")
    block: int = Field(
        5, ge=3, description="Rounds in a block; candidates may be dropped after each block. At most `rounds`."
    )
    burst_ms: float = Field(
        20.0, gt=0, le=60_000, description="How long one candidate is measured in a round; two calls at least."
    )
    memory_mb: int = Field(
        12000, gt=0, description="Most resident memory of all workers that are alive at the same time."
    )
    candidates: int | None = Field(None, gt=0, description="Most candidates in the race.")

    @model_validator(mode="after")
    def _compare_block(self) -> RaceSection:
        if self.block > self.rounds:
            raise ValueError(f"a block of rounds, block {self.block}, is longer than the race, rounds {self.rounds}")
        return self


class ConfirmSection(Section):
    """The finalists, measured again in fresh processes."""

    finalists: int = Field(3, ge=1, le=100, description="How many of the best are confirmed.")
    looks: Annotated[tuple[Annotated[int, Field(le=1000)], ...], AfterValidator(check_looks)] = Field(
        LOOKS, min_length=1, max_length=50, description="Launches of each finalist after which the data are analyzed."
    )
    seconds: float | None = Field(
        None,
        gt=0,
        allow_inf_nan=False,
        description="Time limit of the confirmation; a finalist that is undecided then stays undecided: INCONCLUSIVE. "
        "When empty: the budget, but at least ten minutes; an hour if the budget is thorough.",
    )
    rounds: int = Field(7, ge=3, le=1_000_000, description="Rounds within one launch.")
    burst_ms: float = Field(
        50.0, gt=0, le=60_000, description="How long each is measured in one round; two calls at least."
    )
