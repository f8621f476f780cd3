"""The decision of a run: the verdict, its reasons, and the winner."""

from __future__ import annotations

from enum import StrEnum

from kedro_hone.core.values.artifact import Artifact
from kedro_hone.core.values.digest import digest_json
from kedro_hone.core.values.judgement import Judgement
from kedro_hone.core.values.measurement import Measured, Quality, Speedup


class Verdict(StrEnum):
    """The outcome of a run."""

    PASS = "PASS"  # noqa: S105 - a verdict, not a password
    KEEP = "KEEP"
    FAIL = "FAIL"
    INCONCLUSIVE = "INCONCLUSIVE"


class Decision(Measured):
    """The verdict and its reasons.

    Attributes:
        reasons: One sentence each.
        winner: The candidate's id, or None when the source stays; so is ``artifact``.
        speedup: At the deciding shape; its interval is not yet divided by the noise floor, which it also holds.
        quality: Every gate metric of every finalist that was looked at, in order.
        gates: The judgement of each gate on each finalist, in their order; on the source where it stays.
        baseline: What it was measured against, one sentence.
        workers: How many worker processes were launched.
    """

    verdict: Verdict
    reasons: tuple[str, ...]
    winner: str | None = None
    artifact: Artifact | None = None
    speedup: Speedup | None = None
    quality: tuple[Quality, ...] = ()
    gates: tuple[Judgement, ...] = ()
    baseline: str = ""
    workers: int = 0

    @property
    def digest(self) -> str:
        """``sha256:…`` of all of it."""
        return digest_json(self.model_dump(mode="json"))
