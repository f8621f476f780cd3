"""The tags of a winner, which a registry stores with its version, for people and for later runs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from hone_runtime.contract.proof import ProvenWinner
from hone_runtime.values.decision import Verdict
from hone_runtime.values.digest import digest_json

SOURCE: Final = "hone.source"
"""The tag with the URI of the version that was optimized; only winners have it."""
FILES: Final = "hone.files"
"""The tag with the digest over all files of a version, which the registry adds when they are written."""
DIGEST, SIGNER = "hone.digest", "hone.signer"
"""The tags with the winner's digest and its signer, if any; the publisher's own statement, for people."""
AWAITS: Final = "hone.awaits"
"""The tag of a winner that awaits a person's approval, with the alias that is then moved to it."""
HELD: Final = "hone.held"
"""The tag of a winner that was measured on a busy machine, with the alias that was not moved to it."""
APPROVED: Final = "hone.approved"
"""The tag that a person sets to approve a winner, with the value ``true``."""
MACHINE, TOOLSET = "hone.machine", "hone.toolset"
"""The tags with the machine on which a winner was measured, and the versions of the toolchains used."""
RECIPE: Final = "hone.recipe"
"""The tag with the recipe's digest."""
CHANGED: Final = "hone.source_changed"
"""The tag of a winner whose network is not the source's any more, with ``weights``: it was trained."""
KEY: Final = "hone.publication"
"""The tag with the result of ``derive_key``."""


def make_tags(
    winner: ProvenWinner, *, recipe: str, speedup: float | None = None, data: Mapping[str, str] | None = None
) -> dict[str, str]:
    """Return the tags of a publication, with the digests of the recipe and of each split by its name.

    The speed-up is the estimate of source time over winner time. Unknown values get no tag.
    """
    return {
        SOURCE: winner.source_uri,
        "hone.source_digest": winner.source_digest,
        DIGEST: winner.artifact.digest,
        RECIPE: recipe,
        "hone.run": winner.evidence.run_id,
        "hone.verdict": Verdict.PASS.value,
        **({CHANGED: "weights"} if winner.artifact.is_trained else {}),
        **({} if speedup is None else {"hone.speedup": f"{speedup:.3f}"}),
        **{f"hone.data.{split}": digest for split, digest in (data or {}).items()},
    }


def derive_key(winner: ProvenWinner, *, name: str, tags: Mapping[str, str]) -> str:
    """Return the digest that identifies a publication; ``name`` is the model that the winner is published to.

    It covers the evidence and the signer, so that an interrupted publication is completed only by an identical one.
    """
    parts = [winner.artifact.digest, name, winner.evidence.files, winner.source_digest, tags.get(RECIPE)]
    return digest_json([*parts, *(tags[tag] for tag in (SIGNER,) if tag in tags)])
