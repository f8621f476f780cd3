"""Trials: candidates of a route whose adaptors have other options than the recipe's, built and named as any other."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Final

from pydantic import ValidationError

from kedro_hone.building.budget import Phase
from kedro_hone.building.routes import Changes
from kedro_hone.building.steps import transform
from kedro_hone.comparing.setting import Setting
from kedro_hone.core.contract.adaptor import Options
from kedro_hone.core.contract.catalogue import read_catalogue
from kedro_hone.core.contract.host import Host
from kedro_hone.core.plugins import describe_exception
from kedro_hone.core.values.artifact import Artifact
from kedro_hone.core.values.base import Json
from kedro_hone.core.values.outcome import Candidate, Outcome, Refused
from kedro_hone.core.values.samples import Reference
from kedro_hone.recipe.plan import Plan

_ODD: Final = re.compile(r"[^A-Za-z0-9_-]+")


@dataclass(frozen=True, kw_only=True)
class Route:
    """The route of a valid candidate, with all that made it from the source, and what is worth trying on this machine.

    Attributes:
        candidate: The candidate with the recipe's options.
        chain: The adaptors from the source model on: those that converted it, then those of the route.
        space: For each adaptor and option the values to choose from, the recipe's own first.
    """

    candidate: Candidate
    chain: tuple[str, ...]
    space: Mapping[tuple[str, str], tuple[Json, ...]]

    def name(self, changes: Changes) -> str:
        """Return the id of a trial: the namespace, with the options that differ behind the adaptor that they are of.

        It is a name of a file, a word in a shell and a fragment of a URL, such as
        ``onnx.onnxruntime_int8_static+activations=uint8.onnxruntime_session``.
        """
        parts = self.candidate.id.split(".")
        places = [0] * (len(self.chain) - len(self.candidate.route)) + [*range(1, len(parts))]
        for adaptor, place in zip(self.chain, places, strict=True):
            for option, value in sorted(changes.get(adaptor, {}).items()):
                parts[place] += f"+{option}={_say(value)}"
        return ".".join(parts)


def find_route(candidate: Candidate, plan: Plan, host: Host) -> Route | None:
    """Return a candidate's route where there is anything to choose in it; None where there is not."""
    made = [step.adaptor for step in candidate.outcome.steps if step.outcome == "artifact"]
    converters = made[: len(made) - len(candidate.route)]
    chain = (*converters, *candidate.route)
    if tuple(made) != chain or len(set(chain)) < len(chain):
        return None
    space = {
        (adaptor, option): values
        for adaptor in chain
        if adaptor in plan.options
        for option, choices in plan.spaces.get(adaptor, {}).items()
        if choices.fit(host) and len(values := _list_values(plan.options[adaptor], option, choices.choices, host)) > 1
    }
    return Route(candidate=candidate, chain=chain, space=space) if space else None


def build_trial(route: Route, changes: Changes, plan: Plan, setting: Setting, *, reference: Reference) -> Candidate:
    """Build a trial as the nodes would, step by step from the source; steps with the recipe's options are in the store.

    Without changes it is the route's own candidate again.
    """
    outcome: Outcome = setting.source
    for adaptor in route.chain:
        if not isinstance(outcome, Artifact):
            break
        options = change_options(plan.options[adaptor], changes.get(adaptor, {}))
        if isinstance(options, str):
            outcome = Refused(by=adaptor, reason=options, steps=outcome.steps)
            break
        step = partial(transform, read_catalogue().find_adaptor(adaptor), options, outcome, setting)
        outcome = step(reference=reference, phase=Phase.VALIDATE)
    kept = {adaptor: dict(differing) for adaptor, differing in changes.items() if differing}
    name = route.name(changes)
    return Candidate(id=name, route=route.candidate.route, outcome=outcome, options=kept)


def change_options(options: Options, changes: Mapping[str, Json]) -> Options | str:
    """Return an adaptor's options with some changed, or why it refuses them together."""
    try:
        return type(options).model_validate({**options.model_dump(), **changes})
    except ValidationError as error:
        return f"its options refuse {json.dumps(dict(changes))}: {error.errors(include_url=False)[0]['msg']}"
    except Exception as error:  # noqa: BLE001 - a validator of a plug-in's may raise anything
        return f"its options refuse {json.dumps(dict(changes))}: {describe_exception(error)}"


def _list_values(options: Options, option: str, choices: tuple[Json, ...], host: Host) -> tuple[Json, ...]:
    """Return the recipe's value and the choices that do not come to the same on this machine."""
    own = options.model_dump(mode="json").get(option)
    meant = {json.dumps(_resolve(options, option, own, host)): own}
    for value in choices:
        changed = change_options(options, {option: value})
        said = value if isinstance(changed, str) else _resolve(changed, option, value, host)
        meant.setdefault(json.dumps(said), value)
    return tuple(meant.values())


def _resolve(options: Options, option: str, value: Json, host: Host) -> Json:
    """Return what an option's value comes to on a machine; the value itself where the adaptor cannot tell."""
    try:
        resolved: Json = options.resolve(host).model_dump(mode="json").get(option, value)
    except Exception:  # noqa: BLE001 - code of a plug-in; the step fails with the same error, and says so
        return value
    return resolved


def _say(value: Json) -> str:
    """Return an option's value as a part of a name."""
    text = "-".join(map(str, value)) if isinstance(value, list | tuple) else json.dumps(value)
    return _ODD.sub("-", text.strip('"')) or "none"
