"""The lock that serializes publications to one model."""

from __future__ import annotations

from contextlib import AbstractContextManager

from hone_runtime.values.digest import digest_json
from kedro_hone.core.locks import hold_lock


def lock_publication(registry: str, name: str) -> AbstractContextManager[float]:
    """Allow only one process of this machine at a time to publish to a model of a registry; the others wait.

    Existing versions are looked up before one is created: two processes doing so at once would both create it. The lock
    is in ``$HONE_HOME``, so it does not cover other machines, or users with another ``$HONE_HOME``.
    """
    # Its imports are not installed where a winner is only loaded.
    from kedro_hone.core.environments.store import find_home  # noqa: PLC0415

    lock = f"publish-{digest_json([registry, name]).removeprefix('sha256:')[:16]}.lock"
    return hold_lock(find_home() / "locks" / lock, purpose=f"publishing to {name}")
