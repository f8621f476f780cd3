"""What happened to a version of a model in a registry, as it was delivered or found."""

from __future__ import annotations

from enum import StrEnum
from typing import Final

from kedro_hone.core.values.base import Value

INTERPOLATION: Final = "${"
"""What Kedro's configuration would resolve in a recipe: no stranger's name of a model may."""
HUB: Final = "hf://"
"""Begins the URIs of the Hub, and what rules call its repositories."""


class Kind(StrEnum):
    """What may happen to a version."""

    VERSION_CREATED = "version_created"
    ALIAS_SET = "alias_set"
    TAG_SET = "tag_set"


class Event(Value):
    """One change of one version.

    Attributes:
        kind: What happened.
        uri: The version, pinned: ``models:/digits/3``, or ``hf://owner/name@<commit>``.
        name: The registered model, or the repository.
        key: The alias, or the tag's name; empty for a new version.
        value: The tag's value.
        delivery: What the sender calls this delivery, the same when it is sent again; unique with its sender.
        version: The version's own name as the registry tells it, which tells one content of a path from the next.
        after: When the version was made, in seconds since 1970, if another one had its URI before; else 0.
    """

    kind: Kind
    uri: str
    name: str
    key: str = ""
    value: str = ""
    delivery: str
    version: str = ""
    after: float = 0.0

    @property
    def names(self) -> tuple[str, ...]:
        """What a rule may call it: ``alias_set``, or ``alias_set:candidate``."""
        return (str(self.kind), f"{self.kind}:{self.key}") if self.key else (str(self.kind),)


def name_model(name: str, *, uri: str) -> str:
    """Return what a rule calls the model of a version: its name, with ``hf://`` in front of a repository of the Hub."""
    return f"{HUB}{name}" if uri.startswith(HUB) else name
