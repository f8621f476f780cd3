"""The settings of the service in ``conf/<env>/listen.yml``."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Annotated, Any, Final, Literal

from pydantic import Field, StringConstraints, ValidationError

from hone_runtime.errors import HoneError
from hone_runtime.text import SECRET_NAME
from kedro_hone.core.problems import explain_unknown, explain_value
from kedro_hone.events.job import NO_DEVICE
from kedro_hone.events.rules import Dispatch, Rule, Section

Variable = Annotated[str, StringConstraints(pattern=r"^[A-Za-z_][A-Za-z0-9_]*$")]
_OWN_RULES: Final = frozenset({"approval", "by hand", "renewal"})
_SHORTEST_SECRET: Final = 16
"""The fewest characters: a shorter secret can be guessed."""


class SecretsSection(Section):
    """The names of the variables with the secrets; features without one are disabled."""

    mlflow: Variable | None = None
    """The secret with which MLflow signs its webhooks: enables ``/webhooks/mlflow``."""
    huggingface: Variable | None = None
    """The secret that the Hub sends with its webhooks: enables ``/webhooks/huggingface``."""
    token: Variable | None = None
    """The token of ``/runs``, and of the page: enables both."""
    github: Variable | None = None
    """A token that may start workflows, for rules with ``dispatch``."""


class SweepSection(Section):
    """The sweep: it queries the registries for new versions, also if a webhook was lost."""

    every: float = Field(300.0, ge=1, le=86400)
    """Seconds between two sweeps."""
    registries: tuple[str, ...] = ("models:/",)
    """The registries: ``models:/`` for MLflow, ``hf://`` for the models of the token's account, a path for a folder."""
    first: Literal["now", "all"] = "now"
    """The versions for which the first sweep of a registry starts runs: those from now on, or all."""


class Settings(Section):
    """Everything in ``listen.yml``."""

    rules: tuple[Rule, ...] = Field(min_length=1)
    """The rules that start runs; the first rule that matches an event counts."""
    secrets: SecretsSection = SecretsSection()
    """The names of the variables with the secrets."""
    sweep: SweepSection | None = SweepSection()
    """How registries are queried; null for never."""
    devices: dict[str, Annotated[int, Field(ge=1, le=64)]] = Field({"cpu": 1}, min_length=1)
    """The most simultaneous runs on each device. Measuring waits for its device in any case."""
    attempts: int = Field(5, ge=1, le=100)
    """How often a run is started if it is killed."""
    patience: float = Field(86400.0, ge=0)
    """Seconds in which a run is started again while a registry, GitHub or a store does not respond, or is full."""
    seconds: float = Field(6 * 3600.0, gt=0)
    """How long a run may take before it is ended."""
    keep_days: float = Field(90.0, gt=0)
    """How long the log and the result of an ended run are stored."""
    login: Literal["token", "proxy"] = "token"
    """How people log in: with the token, or at a reverse proxy that alone can reach the service."""
    hosts: tuple[str, ...] = ()
    """The names under which the page is served, such as ``hone.example.org``; empty for any. Needed with ``login:
    proxy``: otherwise a page of another site could reach it under its own name (DNS rebinding)."""

    def place(self, env: str | None) -> Settings:
        """Return these settings with a Kedro environment for the rules without one."""
        rules = tuple(rule.model_copy(update={"env": rule.env or env}) for rule in self.rules)
        return self.model_copy(update={"rules": rules})


def read_settings(given: Mapping[str, Any]) -> Settings:
    """Return the settings of ``listen.yml``.

    Raises:
        HoneError: ``rules-invalid``: a name or value is unknown, two rules have one name, there is none, or a rule has
            an unknown device, has a reserved name, or hands over without a token; a device has a reserved name; the
            name of a secret's variable does not look like a secret; or ``login: proxy`` has no hosts.
    """
    try:
        settings = Settings.model_validate(dict(given))
    except ValidationError as error:
        problems = error.errors(include_url=False)
        # Unknown names first: one may be the misspelt name of a missing one.
        first = next((one for one in problems if one["type"] == "extra_forbidden"), problems[0])
        raise _explain(_explain_problem(first)) from error
    if settings.login == "proxy" and (not settings.hosts or "*" in settings.hosts):
        raise _explain("login: proxy needs hosts, the names under which people reach the page")
    if NO_DEVICE in settings.devices:
        raise _explain(f"no device can be named {NO_DEVICE!r}, which is kept for jobs that measure nothing")
    if bare := next((name for _, name in settings.secrets if name and not SECRET_NAME.search(name.upper())), None):
        raise _explain(
            f"the variable {bare} holds a secret, and its name does not say so; values are hidden by the names of "
            "their variables, so let it contain SECRET or TOKEN"
        )
    names = [rule.name for rule in settings.rules]
    if own := next((name for name in names if name in _OWN_RULES), None):
        raise _explain(f"no rule can be named {own!r}, which is kept for jobs that no rule starts")
    if twice := next((name for name in names if names.count(name) > 1), None):
        raise _explain(f"two rules are named {twice!r}")
    for rule in settings.rules:
        if rule.device not in settings.devices:
            raise _explain(f"the rule {rule.name!r} names the device {rule.device!r}, which is not among devices")
        if rule.dispatch and settings.secrets.github is None:
            raise _explain(f"the rule {rule.name!r} hands over to GitHub, and secrets.github names no variable")
    return settings


def _explain_problem(problem: Mapping[str, Any]) -> str:
    place = problem["loc"]
    where = ".".join(map(str, place)) or "listen.yml"
    if problem["type"] != "extra_forbidden":
        return explain_value(where, problem, secret=place[:1] == ("secrets",))  # it may be the secret itself
    sections: dict[str | int, type[Section]] = {
        "rules": Rule,
        "dispatch": Dispatch,
        "secrets": SecretsSection,
        "sweep": SweepSection,
    }
    section = next((sections[part] for part in reversed(place[:-1]) if part in sections), Settings)
    return explain_unknown(where, str(place[-1]), section.model_fields)


class Secrets(Section):
    """The secrets themselves; empty if switched off."""

    mlflow: str = Field("", repr=False)
    huggingface: str = Field("", repr=False)
    token: str = Field("", repr=False)
    github: str = Field("", repr=False)


def read_secrets(section: SecretsSection, variables: Mapping[str, str] = os.environ) -> Secrets:
    """Return the secrets in the variables.

    Raises:
        HoneError: ``secret-missing``: a variable is not set, or its value is too short to be one.
    """
    found = {kind: variables.get(name, "").strip() for kind, name in section if name is not None}
    for kind, value in found.items():
        if len(value) < _SHORTEST_SECRET:
            name = getattr(section, kind)
            raise HoneError(
                "secret-missing",
                f"The secret of {kind} cannot be used.",
                why=f"The variable {name} "
                + (f"has fewer than {_SHORTEST_SECRET} characters." if value else "is not set, or is empty."),
                hint=f"Make one, `export {name}=$(openssl rand -hex 32)`, and give it to the sender too; or leave "
                f"secrets.{kind} out of listen.yml, which switches off what needs it.",
            )
    return Secrets.model_validate(found)


def _explain(why: str) -> HoneError:
    return HoneError(
        "rules-invalid",
        "The rules in listen.yml cannot be used.",
        why=why if why.endswith("?") else f"{why}.",
        hint="Correct conf/base/listen.yml, or that of the environment.",
    )
