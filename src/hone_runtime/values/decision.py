"""The decision of a run: the verdict, its reasons, and the winner."""

from __future__ import annotations

from enum import StrEnum

from pydantic import Field

from hone_runtime.values.artifact import Artifact
from hone_runtime.values.base import Derived
from hone_runtime.values.judgement import Judgement
from hone_runtime.values.measurement import Quality, Speedup


class Verdict(StrEnum):
    """The outcome of a run."""

    PASS = "PASS"  # noqa: S105 - a verdict, not a password
    KEEP = "KEEP"
    FAIL = "FAIL"
    INCONCLUSIVE = "INCONCLUSIVE"
    DRAFT = "DRAFT"


class Decision(Derived):
    """The verdict and its reasons."""

    verdict: Verdict
    reasons: tuple[str, ...] = Field(description="One sentence each.")
    winner: str | None = Field(None, description="The candidate's id, or None when the source stays; so is `artifact`.")
    artifact: Artifact | None = None
    speedup: Speedup | None = Field(None, description="At the deciding shape, not yet divided by its noise floor.")
    quality: tuple[Quality, ...] = Field((), description="Each gate metric of each finalist that was looked at.")
    gates: tuple[Judgement, ...] = Field((), description="Of each gate on each finalist; on the source where it stays.")
    baseline: str = Field("", description="What it was measured against, one sentence.")
    golden: str | None = Field(None, description="The key of the winner's golden rows in the store, if they are kept.")
    workers: int = Field(0, description="How many worker processes were launched.")
