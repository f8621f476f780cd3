"""The contract of a model registry, and what it says of a version."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Final, Protocol

from pydantic import BaseModel, ConfigDict, TypeAdapter

from kedro_hone.core.contract.proof import ProvenWinner

SOURCE: Final = "hone.source"
"""The tag with the URI of the version that was optimized; only winners carry it."""


class VersionInfo(BaseModel):
    """What a registry knows of a version without downloading it.

    Attributes:
        uri: The URI with the version pinned, such as ``models:/digits/3``.
        name: The registered model's name.
        version: The version or revision.
        aliases: The aliases that point to it.
        tags: The version's tags.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    uri: str
    name: str
    version: str
    aliases: tuple[str, ...] = ()
    tags: dict[str, str] = {}

    @property
    def is_optimized(self) -> bool:
        """Whether this is a winner of ours: no event starts an optimization of it, though a person may."""
        return SOURCE in self.tags


class Publication(BaseModel):
    """Where a winner went."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    uri: str
    version: str
    alias: str | None


PUBLICATIONS: TypeAdapter[tuple[Publication, ...]] = TypeAdapter(tuple[Publication, ...])
"""Reads what ``publish`` hands on: one publication, or none."""


class Registry(Protocol):
    """A place that versions of models come from and go to."""

    def resolve(self, uri: str) -> VersionInfo:
        """Return what is known of a version, without downloading it."""
        ...

    def pull(self, uri: str, folder: Path) -> VersionInfo:
        """Download the version's files, as the registry holds them, into an empty directory."""
        ...

    def publish(
        self,
        winner: ProvenWinner,
        *,
        name: str,
        tags: Mapping[str, str],
        alias: str | None,
        metrics: Mapping[str, float] | None = None,
    ) -> Publication:
        """Write a new version with all its evidence, or none; the alias is moved last."""
        ...
