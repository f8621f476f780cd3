"""Renewal: published winners whose search is out of date, since a toolchain or the machine is another one now."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from kedro_hone.core.contract.aliases import read_aliases
from kedro_hone.core.contract.registry import Registry, VersionInfo
from kedro_hone.core.contract.tags import MACHINE, SOURCE, TOOLSET
from kedro_hone.core.values.base import Json
from kedro_hone.events.job import Optimize, Request, State
from kedro_hone.events.queue import Queue
from kedro_hone.events.rules import Rule

RULE: Final = "renewal"
_DAY: Final = 86400.0


def list_winners(registry: Registry, *, alias: str) -> list[VersionInfo]:
    """Return the winners in a registry that an alias points to, those first published first.

    Raises:
        HoneError: As ``Registry.versions_since``.
    """
    found, _ = registry.versions_since(None)
    winners = [info for info in found if info.is_optimized]
    pointers = {name: read_aliases(registry, name).get(name, {}).get(alias) for name in {one.name for one in winners}}
    return [info for info in winners if info.version == pointers[info.name] or alias in info.aliases]


def explain_due(info: VersionInfo, *, machine: str, toolset: str) -> str:
    """Return what is another one now than when a winner was found, in a few words; empty where nothing is.

    Args:
        info: The winner.
        machine: What ``name_machine`` returns of this one.
        toolset: What ``name_toolset`` returns of the recipe now.
    """
    texts = (info.tags.get(TOOLSET, ""), toolset)
    was, now = (dict(part.split("=", 1) for part in text.split() if "=" in part) for text in texts)
    news = [name for name, version in now.items() if was.get(name) != version]
    parts = [f"toolchains: {', '.join(news)}"] if news else []
    if info.tags.get(MACHINE) != machine:
        parts.append("the machine")
    return " and ".join(parts)


def make_renewal(info: VersionInfo, rule: Rule | None, *, device: str, machine: str, toolset: str) -> Request:
    """Return the request of a run that publishes only what beats the published winner.

    One is enough for a source, a machine and the toolchains' versions.

    Args:
        info: The winner that is out of date.
        rule: That by which the source runs; None for the project's own recipe.
        device: Where the run measures, without a rule.
        machine: This one's name.
        toolset: The toolchains' versions.
    """
    recipe: Mapping[str, Json] = rule.recipe if rule else {}
    gates = {**recipe.get("gates", {}), "beat_published": True}
    task = Optimize(recipe={**recipe, "gates": gates}, env=rule.env if rule else None)
    place = rule.device if rule else device
    return Request.make(uri=info.tags[SOURCE], rule=RULE, task=task, device=place, hardware=machine, recipe=toolset)


def choose_renewals(queue: Queue, requests: list[Request], *, limit: int, now: float) -> list[Request]:
    """Return those requests that are new, or failed before, as many as the limit of a day leaves.

    Args:
        queue: Where renewals of the last 24 hours are counted.
        requests: In the order of their turn.
        limit: How many renewals there may be in 24 hours.
        now: Seconds since 1970.
    """
    left = limit - queue.count_since(RULE, now - _DAY)
    known = {one.key: queue.find_key(one.key) for one in requests}
    new = [one for one in requests if (job := known[one.key]) is None or job.state in {State.FAILED, State.CANCELLED}]
    return new[: max(0, left)]
