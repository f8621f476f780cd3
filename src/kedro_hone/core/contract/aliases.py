"""Aliases that a person may move while a run works: where they pointed at the pull, and whether they still do."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from kedro_hone.core.contract.registry import Registry


class AliasRegistry(Protocol):
    """A registry whose ``publish`` takes ``before``, and moves no alias that was moved by others since."""

    def list_aliases(self, name: str) -> dict[str, str]:
        """Return the version that each alias of a model points to; empty where there is no such model.

        Raises:
            HoneError: ``registry-unreachable`` or ``registry-denied``.
        """


def read_aliases(registry: Registry, name: str) -> dict[str, dict[str, str]]:
    """Return where the aliases of a model point, by its name; empty where the registry cannot tell."""
    # From Python 3.12 on, isinstance with a protocol finds nothing that __getattr__ returns, as GuardedRegistry's does.
    look = getattr(registry, "list_aliases", None)
    return {name: look(name)} if callable(look) else {}


def find_move(alias: str, *, before: Mapping[str, str] | None, now: Mapping[str, str]) -> str:
    """Return how an alias was moved by others between two looks at it; empty where it was not, or nobody looked."""
    if before is None or before.get(alias) == now.get(alias):
        return ""
    was, is_ = (aliases.get(alias, "no version") for aliases in (before, now))
    return (
        f"The alias {alias!r} pointed to {was} when the source was pulled, and points to {is_} now: it was moved "
        "meanwhile, and stays there."
    )
