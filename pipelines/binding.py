"""Place a node in the graph: pass the run's context and bound arguments to its function, and name its datasets.

Nodes, namespaces and pipelines can run alone, from values that earlier runs left in the catalog. So each value records
everything that it was made from (``made_from``), by digests: the values before it, and the keys of the recipe that
affect it. The inputs of a node must agree on each of these digests with the current recipe and with each other: values
of different models, data, recipes or runs are never combined.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial, update_wrapper
from inspect import signature
from pathlib import Path
from typing import Any, Final

from kedro.pipeline import Node, Pipeline

from hone_runtime.contract.registry import VersionInfo
from hone_runtime.values.base import Derived, Json, Value
from hone_runtime.values.digest import digest_json
from kedro_hone.programs import digest_metric
from kedro_hone.recipe.schema import Recipe
from kedro_hone.recipe.variants import select_variants
from kedro_hone.search.context import RunContext, explain_outdated

PARAMETERS = "params:hone"
PLACE = ("store", "run")
CONTEXT = ("source", "samples", *PLACE)
RECIPE: Final = "hone."
"""The prefix of each key of the recipe, as in the parameters."""


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
    """Return a pipeline of one node; its name and outputs get the namespace as a prefix.

    The function is called with the ``context``, with the ``inputs`` (argument to dataset), and with the arguments bound
    by the graph, such as an adaptor's name or a route. A function without a context makes a part of it, and is called
    with ``recipe``, ``store`` and ``run``. ``decided_by`` are the keys of the recipe that affect its result, in
    addition to those that affect its inputs. Datasets with a namespace are connected from outside, since Kedro warns of
    names with dots inside a node.
    """
    outputs = [output] if isinstance(output, str) else [*output]
    called, place = partial(function, **bound), CONTEXT if "context" in signature(function).parameters else PLACE
    # Kedro reads the name and the type hints of the function, and ParallelRunner pickles it.
    run = update_wrapper(partial(_run, function=called, inputs=inputs, outputs=outputs, decided_by=decided_by), _run)
    run.__name__ = function.__name__
    given = {argument: argument for argument in (*place, *inputs)}
    node = Node(run, {**given, "recipe": PARAMETERS}, outputs, name=name, tags=[*tags])
    return Pipeline([node], namespace=namespace, inputs={**given, **inputs}, parameters={PARAMETERS: PARAMETERS})


def _run(
    *,
    recipe: Recipe,
    function: Callable[..., Any],
    inputs: Mapping[str, str],
    outputs: Sequence[str],
    decided_by: Sequence[str],
    **given: Any,
) -> list[Any]:
    """Run a node on values that match each other and the recipe, and record in its results what they were made from.

    Each of several results also records those before it: they belong together.
    """
    values = {inputs.get(argument, argument): value for argument, value in given.items()}
    origins = trace(values, digest_recipe(recipe, project=given["run"].project), decided_by=decided_by)
    if "context" in signature(function).parameters:
        given["context"] = RunContext(recipe=recipe, **{name: given.pop(name) for name in CONTEXT})
    else:
        given["recipe"] = recipe
    made = function(**given)
    signed: list[Any] = []
    for name, value in zip(outputs, made if len(outputs) > 1 else [made], strict=True):
        signed.append(value.model_copy(update={"made_from": origins}) if isinstance(value, Derived) else value)
        if isinstance(value, Derived | VersionInfo):
            origins = {**origins, name: signed[-1].identity}
    return signed


def place_stage(name: str, nodes: Iterable[Pipeline]) -> Pipeline:
    """Return the nodes of a stage, with its name before theirs; the names of their datasets stay.

    Kedro-Viz shows a stage as one box until it is opened.
    """
    return Pipeline([*nodes], namespace=name, prefix_datasets_with_namespace=False)


def digest_recipe(recipe: Recipe, *, project: Path) -> dict[str, str]:
    """Return the digest of each key of a recipe, by names such as ``hone.gates`` and ``hone.gates.drop``.

    Options of adaptors are under ``hone.adaptors.NAME``, with their defaults, and the number of threads is determined
    if it is not given. The sections ``publish`` and ``report`` are left out: ``publish.allow`` is
    checked again before a winner is published, and the other keys do not affect the verdict.

    Raises:
        HoneError: ``metric-unknown``; as ``select_variants``.
    """
    keys: dict[str, Json] = recipe.model_dump(mode="json", exclude={"publish", "report"})
    keys["threads"] = recipe.thread_count
    keys["program"]["metric"] = [recipe.program.metric, digest_metric(recipe.program.metric, project=project)]
    for name in [name for name in keys if isinstance(getattr(recipe, name), Value)]:
        keys |= {f"{name}.{key}": value for key, value in keys[name].items()}
    for name, variants in select_variants(recipe).items():
        options = [variant.options.model_dump(mode="json") for variant in variants]
        keys[f"adaptors.{name}"] = options if len(options) > 1 else options[0]
    return {f"{RECIPE}{name}": digest_json(value) for name, value in keys.items()}


def trace(values: Mapping[str, Any], recipe: Mapping[str, str], *, decided_by: Iterable[str] = ()) -> dict[str, str]:
    """Return what a node's result is made from: its inputs, their own origins, and the node's keys of the recipe.

    The inputs are given by their names in the catalog, the recipe as ``digest_recipe`` returns it, and the node's own
    keys without ``hone.``. Inputs that were not made by a node of kedro-hone, such as the store, are ignored.

    Raises:
        HoneError: ``value-outdated``: an input was made from other values than the recipe or another input.
    """
    origins = {f"{RECIPE}{key}": recipe[f"{RECIPE}{key}"] for key in decided_by}
    for name, value in values.items():
        if not isinstance(value, Derived | VersionInfo):
            continue
        if isinstance(value, Derived) and not value.made_from:
            raise explain_outdated(name, "version of kedro-hone")
        named = {**(value.made_from if isinstance(value, Derived) else {}), name: value.identity}
        for origin, digest in named.items():
            known = recipe.get(origin) if origin.startswith(RECIPE) else origins.get(origin, digest)
            if known != digest:
                raise explain_outdated(name, origin)
        origins |= named
    return origins
