"""What a candidate took to build, also when its steps come from the store."""

from __future__ import annotations

from collections.abc import Iterable

from kedro_hone.core.store.artifacts import Store
from kedro_hone.core.values.artifact import Artifact
from kedro_hone.core.values.digest import digest_json


def note_cost(store: Store, artifact: Artifact, *, parent: Artifact, seconds: float) -> None:
    """Remember what one step took, beside the artifact that it made.

    Args:
        store: The artifact store.
        artifact: What the step made.
        parent: What it was made from.
        seconds: How long it took.
    """
    if artifact.digest != parent.digest:
        store.write_value(_make_key(artifact.digest), {"seconds": seconds, "parent": parent.digest})


def sum_costs(store: Store, artifacts: Iterable[Artifact]) -> float:
    """Return the seconds that artifacts took to build, each step of their routes once.

    Args:
        store: The artifact store.
        artifacts: What was built.

    Returns:
        Seconds; what is not remembered counts nothing.
    """
    waiting, seen, total = [artifact.digest for artifact in artifacts], set[str](), 0.0
    while waiting:
        digest = waiting.pop()
        known = store.read_value(_make_key(digest)) if digest not in seen else None
        seen.add(digest)
        if known is not None:
            total += known["seconds"]
            waiting.append(known["parent"])
    return total


def _make_key(digest: str) -> str:
    return digest_json(["cost", digest])
