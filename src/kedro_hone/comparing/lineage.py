"""What each value was made from, by digests: values of different models, data, recipes or runs are never joined.

Nodes, namespaces and pipelines can run alone, from values that earlier runs left in the catalog. So each value names
all that it was made from (``made_from``): the values before it, and the keys of the recipe that decided it. What a node
is given must agree about each of these names, with the recipe as it is now, and with each other.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Final

from kedro_hone.comparing.setting import explain_outdated
from kedro_hone.core.contract.registry import VersionInfo
from kedro_hone.core.values.base import Json, Made, Value
from kedro_hone.core.values.digest import digest_json
from kedro_hone.programs import digest_metric
from kedro_hone.recipe.plan import make_plan
from kedro_hone.recipe.schema import Recipe

RECIPE: Final = "hone."
"""What the name of each key of the recipe begins with, as in the parameters."""


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
