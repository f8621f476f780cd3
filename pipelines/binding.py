"""Place a node in the graph: give its function the setting and what is bound, and name its datasets.

Nodes, namespaces and pipelines can run alone, from values that earlier runs left in the catalog. So each value names
all that it was made from (``made_from``), by digests: the values before it, and the keys of the recipe that decided it.
What a node is given must agree about each of these names, with the recipe as it is now, and with each other: values of
different models, data, recipes or runs are never joined.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial, update_wrapper
from pathlib import Path
from typing import Any, Final

from kedro.pipeline import Node, Pipeline

from kedro_hone.comparing.setting import Setting, explain_outdated
from kedro_hone.core.contract.registry import VersionInfo
from kedro_hone.core.values.base import Json, Made, Value
from kedro_hone.core.values.digest import digest_json
from kedro_hone.programs import digest_metric
from kedro_hone.recipe.plan import make_plan
from kedro_hone.recipe.schema import Recipe

PARAMETERS = "params:hone"
PLACE = ("store", "run")
SETTING = ("source", "samples", *PLACE)
RECIPE: Final = "hone."
"""What the name of each key of the recipe begins with, as in the parameters."""


@dataclass(frozen=True, kw_only=True)
class _Call:
    """A node's function, and what it is called with besides the values of the catalog."""

    function: Callable[..., Any]
    inputs: Mapping[str, str]  # from argument to dataset, without those of the setting
    output: str | list[str]
    decided_by: Sequence[str]
    bound: Mapping[str, Any] = field(default_factory=dict)
    in_setting: bool = True


def place_node(
    function: Callable[..., Any],
    *,
    name: str,
    inputs: Mapping[str, str],
    output: str | list[str],
    decided_by: Sequence[str] = (),
    namespace: str | None = None,
    tags: Sequence[str] = (),
    **bound: Any,
) -> Pipeline:
    """Return a pipeline of one node, whose name and outputs get the namespace as a prefix.

    The function is called with the ``setting``, with the ``inputs``, from argument to the dataset that it is read from,
    and with what the graph binds, such as an adaptor's name or a route. ``decided_by`` are the keys of the recipe that
    decide its result, next to those that decided its inputs. Datasets with a namespace are connected from outside,
    since Kedro warns of names with dots inside a node.
    """
    call = _Call(function=function, inputs=inputs, output=output, decided_by=decided_by, bound=bound)
    node = _make_node(call, name=name, tags=tags)
    connected = {**{argument: argument for argument in SETTING}, **inputs}
    return Pipeline([node], namespace=namespace, inputs=connected, parameters={PARAMETERS: PARAMETERS})


def place_first(
    function: Callable[..., Any],
    *,
    name: str,
    inputs: Sequence[str] = (),
    output: str | list[str],
    decided_by: Sequence[str],
) -> Node:
    """Return a node that makes a part of the setting: its function is called with ``recipe``, ``store`` and ``run``."""
    given = {name: name for name in inputs}
    call = _Call(function=function, inputs=given, output=output, decided_by=decided_by, in_setting=False)
    return _make_node(call, name=name)


def _make_node(call: _Call, *, name: str, tags: Sequence[str] = ()) -> Node:
    # Kedro reads name and type hints of the function, and ParallelRunner pickles it.
    run = update_wrapper(partial(_run, call=call), _run)
    run.__name__ = call.function.__name__
    arguments = [*(SETTING if call.in_setting else PLACE), *call.inputs]
    given = {**{argument: argument for argument in arguments}, "recipe": PARAMETERS}
    return Node(run, given, call.output, name=name, tags=[*tags])


def _run(*, recipe: Recipe, call: _Call, **given: Any) -> Any:
    """Run a node on values that fit each other and the recipe, and let its results name what they were made from."""
    values = {call.inputs.get(argument, argument): value for argument, value in given.items()}
    keys = digest_recipe(recipe, project=given["run"].project)
    origins = trace(values, keys, decided_by=call.decided_by)
    if call.in_setting:
        setting = Setting(recipe=recipe, **{name: given.pop(name) for name in SETTING})
        made = call.function(setting=setting, **call.bound, **given)
    else:
        made = call.function(recipe=recipe, **call.bound, **given)
    names, results = ([call.output], [made]) if isinstance(call.output, str) else (call.output, made)
    signed: list[Any] = []
    for name, value in zip(names, results, strict=True):
        signed.append(value.model_copy(update={"made_from": origins}) if isinstance(value, Made) else value)
        if isinstance(value, Made | VersionInfo):  # each names those before it, too: they belong together
            origins = {**origins, name: signed[-1].identity}
    return signed[0] if isinstance(call.output, str) else tuple(signed)


def digest_recipe(recipe: Recipe, *, project: Path) -> dict[str, str]:
    """Return the digest of each key of a recipe, by names such as ``hone.gates`` and ``hone.gates.drop``.

    Options of adaptors are under ``hone.adaptors.NAME``, with their defaults, and the number of threads is counted
    where it is not named. The section ``publish`` decides nothing before the verdict and is left out.

    Raises:
        HoneError: ``metric-unknown``; as ``make_plan``.
    """
    keys: dict[str, Json] = recipe.model_dump(mode="json", exclude={"publish"})
    keys["threads"] = recipe.thread_count
    keys["program"]["metric"] = [recipe.program.metric, digest_metric(recipe.program.metric, project=project)]
    for name in [name for name in keys if isinstance(getattr(recipe, name), Value)]:
        keys |= {f"{name}.{key}": value for key, value in keys[name].items()}
    options = make_plan(recipe).options
    keys |= {f"adaptors.{name}": value.model_dump(mode="json") for name, value in options.items()}
    return {f"{RECIPE}{name}": digest_json(value) for name, value in keys.items()}


def trace(values: Mapping[str, Any], recipe: Mapping[str, str], *, decided_by: Iterable[str] = ()) -> dict[str, str]:
    """Return what a node's result is made from: its inputs, what they were made from, and its own keys of the recipe.

    The inputs are given by their names in the catalog, the recipe as ``digest_recipe`` returns it, and the node's own
    keys without ``hone.``. Inputs that no node of ours made, such as the store, are ignored.

    Raises:
        HoneError: ``value-outdated``: an input was made from something else than the recipe or another input says.
    """
    origins = {f"{RECIPE}{key}": recipe[f"{RECIPE}{key}"] for key in decided_by}
    for name, value in values.items():
        if not isinstance(value, Made | VersionInfo):
            continue
        if isinstance(value, Made) and not value.made_from:
            raise explain_outdated(name, "version of kedro-hone")
        named = {**(value.made_from if isinstance(value, Made) else {}), name: value.identity}
        for origin, digest in named.items():
            known = recipe.get(origin) if origin.startswith(RECIPE) else origins.get(origin, digest)
            if known != digest:
                raise explain_outdated(name, origin)
        origins |= named
    return origins
