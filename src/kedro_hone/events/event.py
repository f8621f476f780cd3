"""Events: changes of a model's version in a registry, as delivered or found."""

from __future__ import annotations

from enum import StrEnum
from typing import Final

from hone_runtime.values.base import Value

INTERPOLATION: Final = "${"
"""Kedro's configuration would resolve it in a recipe: no name of a model may contain it."""
HUB: Final = "hf://"
"""The scheme of the Hub's URIs, and the prefix of its repositories in rules."""


class Kind(StrEnum):
    """The kinds of changes of a version."""

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
        delivery: The delivery's id, the same if it is sent again.
        version: The version's own name in the registry; for a path, it differs for each content.
        after: When the version was made, in seconds since 1970, if another one had its URI before; otherwise 0.
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
        """Its names in rules: ``alias_set``, or ``alias_set:candidate``."""
        return (str(self.kind), f"{self.kind}:{self.key}") if self.key else (str(self.kind),)


def format_model_name(name: str, *, uri: str) -> str:
    """Return a model's name in rules: with ``hf://`` in front if it is a repository of the Hub."""
    return f"{HUB}{name}" if uri.startswith(HUB) else name
