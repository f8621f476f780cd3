"""The lock that publications to one model take turns by."""

from __future__ import annotations

from contextlib import AbstractContextManager

from hone_runtime.values.digest import digest_json
from kedro_hone.core.locks import hold_lock


def lock_publication(registry: str, name: str) -> AbstractContextManager[float]:
    """Let one process of this machine at a time publish to a model of a registry; the others wait.

    Which versions there are is looked up before one is made: two that do so at once would both make it. The lock is in
    ``$HONE_HOME``, so another machine, or a user with another one, is not kept out.
    """
    # What it imports is not installed where a winner is only loaded.
    from kedro_hone.core.environments.store import find_home  # noqa: PLC0415

    lock = f"publish-{digest_json([registry, name]).removeprefix('sha256:')[:16]}.lock"
    return hold_lock(find_home() / "locks" / lock, purpose=f"publishing to {name}")
