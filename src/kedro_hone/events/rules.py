"""Which events start a run, and with which recipe: the rules of ``conf/<env>/listen.yml``."""

from __future__ import annotations

import re
import reprlib
from collections.abc import Collection, Iterable, Sequence
from fnmatch import fnmatchcase
from typing import Annotated

from pydantic import AfterValidator, BaseModel, ConfigDict, Field

from hone_runtime.values.base import Json
from kedro_hone.events.event import HUB, Event, Kind, format_model_name
from kedro_hone.events.job import HandOver, Optimize, Task

_WILD = frozenset("*?[")
_NAMED = "|".join(kind for kind in Kind if kind is not Kind.VERSION_CREATED)


def _check_event(name: str) -> str:
    if re.fullmatch(f"{Kind.VERSION_CREATED}|({_NAMED})(:.+)?", name) is None:
        known = f"{Kind.VERSION_CREATED}, {Kind.ALIAS_SET}:ALIAS or {Kind.TAG_SET}:TAG"
        raise ValueError(f"must be {known}, and not {reprlib.repr(name)}")
    return name


EventName = Annotated[str, AfterValidator(_check_event)]


class Section(BaseModel):
    """Settings without unknown names."""

    model_config = ConfigDict(extra="forbid", frozen=True, use_attribute_docstrings=True)


class Dispatch(Section):
    """The workflows to which an event is handed over: those with ``on: repository_dispatch``."""

    repository: str = Field(pattern=r"^[\w.-]+/[\w.-]+$")
    """The repository of the workflow, ``owner/name``."""
    event_type: str = Field("model-version", min_length=1, max_length=100)
    """The event that the workflow waits for."""


class Rule(Section):
    """Which events start a run, and its recipe."""

    name: str = Field(min_length=1, max_length=100)
    """The rule's name in the queue and in logs."""
    models: str = Field(min_length=1)
    """The models: their name, or a pattern such as ``fraud-*``; with the prefix ``hf://`` for repositories of the Hub,
    which no other pattern matches."""
    events: tuple[EventName, ...] = Field(("version_created",), min_length=1)
    """``version_created``, ``alias_set:<alias>``, ``tag_set:<tag>``; without an alias or tag, any matches."""
    recipe: dict[str, Json] = Field(default_factory=dict)
    """Changes of the recipe for these models, as under ``hone:`` in parameters.yml; ``model.uri`` is set."""
    env: str | None = None
    """The Kedro environment of the run."""
    device: str = "cpu"
    """The device where it measures, one of ``devices``: runs of one device follow each other."""
    dispatch: Dispatch | None = None
    """Hand the event over to GitHub instead of a run on this machine."""

    def takes(self, event: Event) -> bool:
        """Return whether an event starts a run by this rule."""
        return self.names(event) and not {*self.events}.isdisjoint(event.names)

    def names(self, event: Event) -> bool:
        """Return whether an event is about a model of the rule."""
        return self.covers(format_model_name(event.name, uri=event.uri))

    def covers(self, models: str) -> bool:
        """Return whether the rule includes a model."""
        return covers(self.models, models)

    def make_task(self, *, asked: bool = False) -> Task:
        """Return the task by this rule; ``asked``: whether a person requested it."""
        given = {"recipe": self.recipe, "env": self.env, "asked": asked}
        if self.dispatch is None:
            return Optimize.model_validate(given)
        return HandOver.model_validate(given | self.dispatch.model_dump())


def covers(pattern: str, models: str) -> bool:
    """Return whether a rule's pattern includes a model, named as by ``format_model_name``."""
    return models.startswith(HUB) == pattern.startswith(HUB) and fnmatchcase(models, pattern)


def find_rule(rules: Iterable[Rule], event: Event) -> Rule | None:
    """Return the first rule that matches an event; None if there is none."""
    return next((rule for rule in rules if rule.takes(event)), None)


def list_unmatched(rules: Iterable[Rule], registry: str, models: Collection[str]) -> list[str]:
    """Return the names of the rules for a registry that name none of the models in it.

    Args:
        rules: All rules; those for repositories of the Hub are for the Hub, and all others for all others.
        registry: Its URI.
        models: All models in it, as ``format_model_name`` names them.
    """
    own = (rule for rule in rules if rule.models.startswith(HUB) == registry.startswith(HUB))
    return [rule.name for rule in own if not any(map(rule.covers, models))]


def list_unreachable(rules: Iterable[Rule], *, hub: bool, others: bool) -> list[str]:
    """Return, in words, the rules that no event can match.

    Args:
        rules: All rules.
        hub: Whether events of the Hub can arrive, by its webhooks or a sweep.
        others: Whether events of other registries can arrive.
    """
    return [
        f"no event can reach the rule {rule.name!r}: neither a secret of webhooks nor a sweep is set for it"
        for rule in rules
        if not (hub if rule.models.startswith(HUB) else others)
    ]


def list_hidden(rules: Sequence[Rule]) -> list[str]:
    """Return, in words, the rules that never apply, since an earlier one matches all their events."""
    return [
        f"the rule {later.name!r} never applies: {earlier.name!r} before it matches the same models and events"
        for number, later in enumerate(rules)
        for earlier in rules[:number]
        if _takes_all(earlier.models, later.models) and includes_events(earlier.events, later.events)
    ]


def _takes_all(earlier: str, later: str) -> bool:
    """Return whether a pattern matches every name that another one does, as far as this can be decided."""
    if earlier.startswith(HUB) != later.startswith(HUB):
        return False
    begin = earlier.removesuffix("*")
    plain = _WILD.isdisjoint(later) and fnmatchcase(later, earlier)
    return earlier == later or plain or (begin != earlier and _WILD.isdisjoint(begin) and later.startswith(begin))


def includes_events(earlier: Iterable[str], later: Iterable[str]) -> bool:
    """Return whether some kinds of events include others: one without a name includes it with any."""
    known = {*earlier}
    return all(known & {name, name.partition(":")[0]} for name in later)
