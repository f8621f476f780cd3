"""The tags of a published version: where it comes from, and what was proved of it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from kedro_hone.core.contract.proof import ProvenWinner
from kedro_hone.core.contract.registry import SOURCE
from kedro_hone.core.values.measurement import Verdict

SOURCE_DIGEST: Final = "hone.source_digest"
DIGEST: Final = "hone.digest"
"""The digest of the winner."""
RECIPE: Final = "hone.recipe"
RUN: Final = "hone.run"
VERDICT: Final = "hone.verdict"
SPEEDUP: Final = "hone.speedup"
DATA: Final = "hone.data."
"""Prefix: ``hone.data.gate`` holds the digest of the gate split."""


def make_tags(
    winner: ProvenWinner, *, recipe: str, speedup: float | None = None, data: Mapping[str, str] | None = None
) -> dict[str, str]:
    """Return the tags of a publication; what is not known has no tag.

    Args:
        winner: The winner with what proves it.
        recipe: The recipe's digest.
        speedup: Source time over winner time, the estimate.
        data: The name of each split, and its digest.
    """
    tags = {
        SOURCE: winner.source_uri,
        SOURCE_DIGEST: winner.source_digest,
        DIGEST: winner.artifact.digest,
        RECIPE: recipe,
        RUN: winner.evidence.run_id,
        VERDICT: Verdict.PASS.value,
    }
    if speedup is not None:
        tags[SPEEDUP] = f"{speedup:.3f}"
    return tags | {f"{DATA}{split}": digest for split, digest in (data or {}).items()}
