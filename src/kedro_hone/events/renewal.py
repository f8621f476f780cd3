"""Renewal: repeats the search for published winners found with other toolchains or on another machine."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path, PurePath
from typing import Final
from urllib.parse import urlsplit

from hone_runtime.contract.aliases import read_aliases
from hone_runtime.contract.registry import Registry, VersionInfo
from hone_runtime.contract.tags import MACHINE, SOURCE, TOOLSET
from hone_runtime.text import open_logger
from hone_runtime.values.base import Json
from kedro_hone.events.event import INTERPOLATION, format_model_name
from kedro_hone.events.job import JobRequest, Optimize
from kedro_hone.events.rules import Rule

logger = open_logger(__name__)

RULE: Final = "renewal"


def list_winners(registry: Registry, *, find_alias: Callable[[VersionInfo], str | None]) -> list[VersionInfo]:
    """Return the winners in a registry that their alias points to, those first published first.

    Args:
        registry: The registry of the winners.
        find_alias: Returns the alias that the runs of a winner's source move; None to skip a winner.

    Raises:
        HoneError: As ``Registry.versions_since``.
    """
    found, _, skipped = registry.versions_since(None)
    for uri, reason in skipped.items():
        logger.warning("%s is left out: %s", uri, reason)
    wanted = [(info, alias) for info in found if info.is_optimized and (alias := find_alias(info))]
    pointers = {name: read_aliases(registry, name).get(name, {}) for name in {info.name for info, _ in wanted}}
    return [info for info, alias in wanted if info.version == pointers[info.name].get(alias) or alias in info.aliases]


def find_rule_of(info: VersionInfo, rules: Sequence[Rule]) -> Rule | None:
    """Return the first rule that names the model that a winner was made from, regardless of its events."""
    source = info.tags[SOURCE]
    model = format_model_name(find_source_name(source), uri=source)
    return next((rule for rule in rules if rule.covers(model)), None)


def find_source_name(uri: str) -> str:
    """Return the name of the model of a pinned URI, as in events: ``digits``, ``org/name``, or a folder's name."""
    scheme, _, rest = uri.partition(":")
    if scheme == "models":
        return rest.lstrip("/").rpartition("/")[0]
    return rest.lstrip("/").partition("@")[0] if scheme == "hf" else PurePath(uri).name


def explain_refused(info: VersionInfo, registry: str, rule: Rule | None, *, project: Path) -> str:
    """Return why the source in a winner's tag is not run; empty if it is run.

    Anyone with write access can set tags, so a tag allows less than a rule.

    Args:
        info: The winner.
        registry: The URI of its registry, or a folder.
        rule: The rule that names its source; None if there are no rules.
        project: The root of the Kedro project.
    """
    source = info.tags[SOURCE]
    try:
        scheme, own = urlsplit(source).scheme, urlsplit(registry).scheme
    except ValueError:
        return "it is not a URI"
    if INTERPOLATION in source or not source.isprintable():
        return "it is not a plain URI"
    if not scheme:
        roots = [project.resolve(), *([] if own else [(project / registry).resolve()])]
        inside = any((project / source).resolve().is_relative_to(root) for root in roots)
        return "" if inside else "it is a path outside the project"
    return "" if rule or scheme == own else "it is in another registry, and no rule in listen.yml names it"


def explain_due(info: VersionInfo, *, machine: str, toolset: str) -> str:
    """Return a short description of the changes since a winner was found; empty if nothing has changed.

    Args:
        info: The winner.
        machine: This machine, by ``format_machine_tag``.
        toolset: The toolchains of the recipe now, by ``format_toolset``.
    """
    texts = (info.tags.get(TOOLSET, ""), toolset)
    was, now = (dict(part.split("=", 1) for part in text.split() if "=" in part) for text in texts)
    news = [name for name, version in now.items() if was.get(name) != version]
    parts = [f"toolchains: {', '.join(news)}"] if news else []
    if info.tags.get(MACHINE) != machine:
        parts.append("the machine")
    return " and ".join(parts)


def make_renewal(info: VersionInfo, rule: Rule | None, *, device: str, machine: str, toolset: str) -> JobRequest:
    """Return the request of a run that publishes a model only if it beats the published winner.

    One request is enough for a source, a machine and the toolchains' versions.

    Args:
        info: The winner that is out of date.
        rule: The rule of the source; None for the project's own recipe.
        device: The device of the run, if there is no rule.
        machine: This machine's name.
        toolset: The toolchains' versions.
    """
    recipe: Mapping[str, Json] = rule.recipe if rule else {}
    gates = {**recipe.get("gates", {}), "beat_published": True}
    task = Optimize(recipe={**recipe, "gates": gates}, env=rule.env if rule else None)
    place = rule.device if rule else device
    return JobRequest.make(uri=info.tags[SOURCE], rule=RULE, task=task, device=place, hardware=machine, recipe=toolset)
