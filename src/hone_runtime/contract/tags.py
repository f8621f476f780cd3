"""The tags of a winner: what a registry keeps with its version, for people and for the next run."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from hone_runtime.contract.proof import ProvenWinner
from hone_runtime.values.decision import Verdict
from hone_runtime.values.digest import digest_json

SOURCE: Final = "hone.source"
"""The tag with the URI of the version that was optimized; only winners carry it."""
FILES: Final = "hone.files"
"""The tag with the digest over all files of a version, which the registry adds when they are written."""
DIGEST, SIGNER = "hone.digest", "hone.signer"
"""The tags with the winner's digest, and what signed it, if anything did: a word of the publisher's, for people."""
AWAITS: Final = "hone.awaits"
"""The tag of a winner that waits for a person's approval, with the alias that is moved to it then."""
HELD: Final = "hone.held"
"""The tag of a winner that was measured on a busy machine, with the alias that was not moved to it."""
APPROVED: Final = "hone.approved"
"""The tag that a person sets to approve a winner, with the value ``true``."""
MACHINE, TOOLSET = "hone.machine", "hone.toolset"
"""The tags with the machine that a winner was measured on, and the versions of the toolchains that took part."""
RECIPE: Final = "hone.recipe"
"""The tag with the recipe's digest."""
KEY: Final = "hone.publication"
"""The tag with what ``derive_key`` returns."""


def make_tags(
    winner: ProvenWinner, *, recipe: str, speedup: float | None = None, data: Mapping[str, str] | None = None
) -> dict[str, str]:
    """Return the tags of a publication, with the digests of the recipe and of each split by its name.

    The speed-up is the estimate of source time over winner time; there is no tag of what is not known.
    """
    return {
        SOURCE: winner.source_uri,
        "hone.source_digest": winner.source_digest,
        DIGEST: winner.artifact.digest,
        RECIPE: recipe,
        "hone.run": winner.evidence.run_id,
        "hone.verdict": Verdict.PASS.value,
        **({} if speedup is None else {"hone.speedup": f"{speedup:.3f}"}),
        **{f"hone.data.{split}": digest for split, digest in (data or {}).items()},
    }


def derive_key(winner: ProvenWinner, *, name: str, tags: Mapping[str, str]) -> str:
    """Return a digest of what makes two calls of ``publish`` the same publication: ``name`` is where the winner goes.

    The evidence and what signs it are in it, so that a killed publication is completed only by one with the same.
    """
    parts = [winner.artifact.digest, name, winner.evidence.files, winner.source_digest, tags.get(RECIPE)]
    return digest_json([*parts, *(tags[tag] for tag in (SIGNER,) if tag in tags)])
