"""Place a node in the graph: give its function the setting and what is bound, and name its datasets."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial, update_wrapper
from typing import Any

from kedro.pipeline import Node, Pipeline

from kedro_hone.comparing.lineage import digest_recipe, trace
from kedro_hone.comparing.setting import Setting
from kedro_hone.core.contract.registry import VersionInfo
from kedro_hone.core.values.made import Made
from kedro_hone.recipe.schema import Recipe

PARAMETERS = "params:hone"
PLACE = ("store", "run")
SETTING = ("source", "samples", *PLACE)


def place_node(
    function: Callable[..., Any],
    *,
    name: str,
    inputs: Mapping[str, str],
    output: str | Sequence[str],
    decided_by: Sequence[str] = (),
    namespace: str | None = None,
    tags: Sequence[str] = (),
    in_setting: bool = True,
    **bound: Any,
) -> Pipeline:
    """Return a pipeline of one node, whose name and outputs get the namespace as a prefix.

    The function is called with the ``setting``, with the ``inputs``, from argument to the dataset that it is read from,
    and with what the graph binds, such as an adaptor's name or a route. One that makes a part of the setting is called
    with ``recipe``, ``store`` and ``run`` instead. ``decided_by`` are the keys of the recipe that decide its result,
    next to those that decided its inputs. Datasets with a namespace are connected from outside, since Kedro warns of
    names with dots inside a node.
    """
    outputs = [output] if isinstance(output, str) else [*output]
    called = partial(function, **bound)
    call = partial(_run, function=called, inputs=inputs, outputs=outputs, decided_by=decided_by, in_setting=in_setting)
    # Kedro reads name and type hints of the function, and ParallelRunner pickles it.
    run = update_wrapper(call, _run)
    run.__name__ = function.__name__
    given = {argument: argument for argument in (*(SETTING if in_setting else PLACE), *inputs)}
    node = Node(run, {**given, "recipe": PARAMETERS}, outputs, name=name, tags=[*tags])
    return Pipeline([node], namespace=namespace, inputs={**given, **inputs}, parameters={PARAMETERS: PARAMETERS})


def _run(
    *,
    recipe: Recipe,
    function: Callable[..., Any],
    inputs: Mapping[str, str],
    outputs: Sequence[str],
    decided_by: Sequence[str],
    in_setting: bool,
    **given: Any,
) -> list[Any]:
    """Run a node on values that fit each other and the recipe, and let its results name what they were made from.

    Each of several results names those before it, too: they belong together.
    """
    values = {inputs.get(argument, argument): value for argument, value in given.items()}
    origins = trace(values, digest_recipe(recipe, project=given["run"].project), decided_by=decided_by)
    if in_setting:
        given["setting"] = Setting(recipe=recipe, **{name: given.pop(name) for name in SETTING})
    else:
        given["recipe"] = recipe
    made = function(**given)
    signed: list[Any] = []
    for name, value in zip(outputs, made if len(outputs) > 1 else [made], strict=True):
        signed.append(value.model_copy(update={"made_from": origins}) if isinstance(value, Made) else value)
        if isinstance(value, Made | VersionInfo):
            origins = {**origins, name: signed[-1].identity}
    return signed
