"""New versions since the last poll. Polling is needed since webhooks can get lost."""

from __future__ import annotations

import json
from itertools import takewhile
from typing import TYPE_CHECKING, Any, Final

from kedro_hone.adaptors.registries.mlflow.names import iterate_versions, make_info
from kedro_hone.core.contract.registry import VersionInfo

if TYPE_CHECKING:
    from mlflow import MlflowClient

OVERLAP_MS: Final = 60_000
"""How far a poll looks back behind its cursor, for versions that were committed late."""


def list_arrivals(client: MlflowClient, cursor: str | None) -> tuple[tuple[VersionInfo, ...], str]:
    """Return the versions of all models that came after a cursor, oldest first, and the next cursor."""
    state: dict[str, Any] = json.loads(cursor) if cursor else {"since": 0, "seen": []}
    start = state["since"] - OVERLAP_MS
    newest = iterate_versions(client, order="creation_timestamp DESC")
    found = list(takewhile(lambda version: version.creation_timestamp >= start, newest))
    infos = [(version.creation_timestamp, make_info(version)) for version in reversed(found)]
    since = max([state["since"], *(created for created, _ in infos)])
    seen = [info.uri for created, info in infos if created >= since - OVERLAP_MS]
    known = set(state["seen"])
    return tuple(info for _, info in infos if info.uri not in known), json.dumps({"since": since, "seen": seen})
