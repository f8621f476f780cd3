"""Aliases that a person may move during a run: their targets at the pull, and whether these have changed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from hone_runtime.contract.registry import Publication, Registry, VersionInfo
from hone_runtime.contract.tags import AWAITS, HELD
from hone_runtime.errors import HoneError
from hone_runtime.values.digest import digest_json

PULL: Final = "hone.pull"
"""The tag with the id of the run that pulled the source; it shows whether a version comes from the same pull."""


def read_aliases(registry: Registry, name: str) -> dict[str, dict[str, str]]:
    """Return the aliases of a model as ``{model: {alias: version}}``; empty if absent, or offline."""
    try:
        aliases = registry.list_aliases(name)
    except HoneError as error:
        if error.slug != "registry-offline":
            raise
        return {}  # nothing can be published now, and later it is unknown whether an alias was moved meanwhile
    return {} if aliases is None else {name: aliases}


def find_published(registry: Registry, name: str, alias: str) -> str | None:
    """Return the URI of the version that an alias points to; None if absent.

    Raises:
        HoneError: As in ``Registry.list_aliases``; ``registry-offline``.
    """
    version = (registry.list_aliases(name) or {}).get(alias)
    return None if version is None else registry.name_version(name, version)


def find_awaited(registry: Registry, uri: str, *, approved: str = "") -> tuple[VersionInfo, str]:
    """Return a winner that awaits approval, and the alias that will be moved to it.

    Args:
        registry: The winner's registry.
        uri: The winner's URI.
        approved: The alias that a person approved; empty for the one in the winner's tag.

    Raises:
        HoneError: ``approval-unneeded``: the version does not await approval;
            ``approval-outdated``: it awaits approval for an alias other than the approved one.
    """
    info = registry.resolve(uri)
    alias = info.tags.get(AWAITS, "")
    if alias and approved and alias != approved:
        raise HoneError(
            "approval-outdated",
            f"{info.uri} waits for a different alias than the approved one.",
            why=f"{approved!r} was approved, but its tag {AWAITS} was changed to {alias!r}.",
            hint="Find out who changed it. If it is right, approve it again: `kedro-hone approve`.",
        )
    if HELD in info.tags:
        raise HoneError(
            "approval-unneeded",
            f"{info.uri} waits for a quiet machine, not for an approval.",
            why=f"It has the tag {HELD}: other processes used too much of the cores while it was measured.",
            hint="Run `kedro-hone run --from-nodes confirm` on a quiet machine: a winner that passes there "
            "is published.",
        )
    if not alias or not info.is_optimized:
        raise HoneError(
            "approval-unneeded",
            f"{info.uri} does not wait for an approval.",
            why=f"It has no tag {AWAITS}: "
            f"{'no approval was requested' if info.is_optimized else 'it is not a winner'}.",
            hint="Name a version that a run with hone.publish.approval published; its summary has the command.",
        )
    return info, alias


def explain_waiting(info: VersionInfo, alias: str) -> HoneError | None:
    """Return the error for an alias that does not exist yet because this winner awaits approval for it; else None."""
    if info.tags.get(AWAITS) == alias:
        why = f"{info.uri} was published without it, and gets it once a person approves."
        way = f"Approve it by `kedro-hone approve {info.uri}`"
    elif info.tags.get(HELD) == alias:
        why = f"{info.uri} was published without it: other processes kept the machine too busy while it was measured."
        way = "Run `kedro-hone run --from-nodes confirm` on a quiet machine"
    else:
        return None
    what = f"{info.name!r} has no alias {alias!r} yet."
    return HoneError("alias-unknown", what, why=why, hint=f"{way}, or load that version by its number, {info.uri}.")


def approve(registry: Registry, uri: str, *, approved: str = "") -> Publication:
    """Move the alias that awaits approval to a winner, and return where it points now; idempotent.

    The caller checks that the version matches its tags. For ``approved`` see ``find_awaited``.

    Raises:
        HoneError: As in ``find_awaited`` and ``Registry.move_alias``; ``approval-outdated``: the alias points to a
            version that was published later.
    """
    info, alias = find_awaited(registry, uri, approved=approved)
    if alias not in info.aliases:
        if later := _find_later(registry, info, alias):
            raise HoneError(
                "approval-outdated",
                f"{info.uri} is older than what {alias!r} points to.",
                why=f"Version {later} was published after it, and has the alias.",
                hint="Approve a newer winner. To go back to this one, move the alias with the registry's own client.",
            )
        registry.move_alias(info.uri, alias)
    return Publication(uri=info.uri, version=info.version, alias=alias)


def _find_later(registry: Registry, info: VersionInfo, alias: str) -> str:
    """Return the version of an alias if it was published after the given version; else empty."""
    pointer = read_aliases(registry, info.name).get(info.name, {}).get(alias, "")
    order = [one.version for one in registry.versions_since(None).infos if one.name == info.name] if pointer else []
    known = pointer in order and info.version in order
    return pointer if known and order.index(pointer) > order.index(info.version) else ""


def format_record_name(alias: str) -> str:
    """Return the name of the record of the version that a publication moved an alias to, with tag ``PULL``."""
    return f".given-{digest_json(alias).removeprefix('sha256:')[:16]}"


def find_move(alias: str, *, before: Mapping[str, str] | None, now: Mapping[str, str], ours: str | None = None) -> str:
    """Return how others moved an alias between two reads of it; empty if they did not, or ``before`` is None.

    ``ours`` is the version that a publication of the same pull moved the alias to. The alias must then still point to
    it, and not to the version that it had at the pull.
    """
    was, is_ = ours or (before or {}).get(alias), now.get(alias)
    if before is None or was == is_:
        return ""
    moment = "this pull's winner was published" if ours else "the source was pulled"
    return (
        f"The alias {alias!r} pointed to {was or 'no version'} when {moment}, and points to {is_ or 'no version'} now: "
        "it was moved in the meantime, and is left there."
    )
