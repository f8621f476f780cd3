"""Which events start a run, and with which recipe: the rules of ``conf/<env>/listen.yml``."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from fnmatch import fnmatchcase
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, StringConstraints, ValidationError

from kedro_hone.core.errors import HoneError
from kedro_hone.core.values.base import Json
from kedro_hone.core.values.digest import digest_json
from kedro_hone.events.event import Event, Kind

EventName = Annotated[str, StringConstraints(pattern=rf"^({'|'.join(Kind)})(:.+)?$")]


class Section(BaseModel):
    """Settings, all of whose names are known."""

    model_config = ConfigDict(extra="forbid", frozen=True, use_attribute_docstrings=True)


class Rule(Section):
    """Which events start a run, and what the run is told."""

    name: str = Field(min_length=1, max_length=100)
    """Its name in the queue and in logs."""
    models: str = Field(min_length=1)
    """Which models: their name, or a pattern such as ``fraud-*``; ``hf://`` in front of repositories of the Hub."""
    events: tuple[EventName, ...] = Field(("version_created",), min_length=1)
    """``version_created``, ``alias_set:<alias>``, ``tag_set:<tag>``; an alias or tag that is not named is any."""
    recipe: dict[str, Json] = Field(default_factory=dict)
    """What of the recipe differs for these models, as under ``hone:`` in parameters.yml; ``model.uri`` is set."""
    env: str | None = None
    """The Kedro environment of the run."""
    device: str = "cpu"
    """Which device it measures on: runs of one device follow each other."""

    def takes(self, event: Event) -> bool:
        """Return whether an event starts a run by this rule."""
        place = f"hf://{event.name}" if event.uri.startswith("hf:") else event.name
        return fnmatchcase(place, self.models) and not {*self.events}.isdisjoint(event.names)

    @property
    def digest(self) -> str:
        """``sha256:…`` of what a run by this rule is told."""
        return digest_json([self.recipe, self.env, self.device])


class Rules(Section):
    """All rules, of which the first that takes an event counts."""

    rules: tuple[Rule, ...] = Field(min_length=1)

    def find(self, event: Event) -> Rule | None:
        """Return the first rule that takes an event; None where there is none."""
        return next((rule for rule in self.rules if rule.takes(event)), None)

    def list_hidden(self) -> list[str]:
        """Return, in words, the rules that never count, since an earlier one takes all that they take."""
        return [
            f"the rule {later.name!r} never counts: {earlier.name!r} before it takes the same models and events"
            for number, later in enumerate(self.rules)
            for earlier in self.rules[:number]
            if fnmatchcase(later.models, earlier.models) and _covers(earlier.events, later.events)
        ]


def _covers(earlier: Iterable[str], later: Iterable[str]) -> bool:
    known = {*earlier}
    return all(known & {name, name.partition(":")[0]} for name in later)


def read_rules(settings: Mapping[str, Any]) -> Rules:
    """Return the rules of ``listen.yml``.

    Raises:
        HoneError: ``rules-invalid``: a name or value is unknown, two rules have one name, or there is none.
    """
    try:
        rules = Rules.model_validate(dict(settings))
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        place = ".".join(map(str, first["loc"])) or "listen.yml"
        raise _explain(f"{place}: {first['msg']}") from error
    names = [rule.name for rule in rules.rules]
    if twice := next((name for name in names if names.count(name) > 1), None):
        raise _explain(f"two rules are named {twice!r}")
    return rules


def _explain(why: str) -> HoneError:
    return HoneError(
        "rules-invalid",
        "The rules in listen.yml cannot be used.",
        why=f"{why}.",
        hint="Mend conf/base/listen.yml, or that of the environment.",
    )
