"""Place a node in the graph: give its function the setting and what is bound, and name its datasets."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial, update_wrapper
from typing import Any

from kedro.pipeline import Node, Pipeline

from kedro_hone.comparing.setting import Setting, explain_outdated
from kedro_hone.core.values.measurement import Measured
from kedro_hone.core.values.samples import Reference
from kedro_hone.recipe.schema import Recipe

PARAMETERS = "params:hone"
SETTING = {name: name for name in ("source", "samples", "store", "run")}


def place_node(
    function: Callable[..., Any],
    *,
    name: str,
    inputs: Mapping[str, str],
    output: str | Sequence[str],
    namespace: str | None = None,
    tags: Sequence[str] = (),
    **bound: Any,
) -> Pipeline:
    """Return a pipeline of one node, whose name and outputs get the namespace as a prefix.

    The function is called with the ``setting``, with the ``inputs``, from argument to the dataset that it is read from,
    and with what the graph binds, such as an adaptor's name or a route. Datasets with a namespace are connected from
    outside, since Kedro warns of names with dots inside a node.
    """
    # Kedro reads name and type hints of the function, and ParallelRunner pickles it.
    run = update_wrapper(partial(_run_in_setting, function=function, bound=bound, datasets={**inputs}), _run_in_setting)
    run.__name__ = function.__name__
    connected = {**SETTING, **inputs}
    given = {**{argument: argument for argument in connected}, "recipe": PARAMETERS}
    node = Node(run, given, output if isinstance(output, str) else [*output], name=name, tags=[*tags])
    return Pipeline([node], namespace=namespace, inputs=connected, parameters={PARAMETERS: PARAMETERS})


def _run_in_setting(
    *, recipe: Recipe, function: Callable[..., Any], bound: Mapping[str, Any], datasets: Mapping[str, str], **given: Any
) -> Any:
    """Run a node; a persisted value of another model, other data or another recipe is refused: nodes can run alone."""
    setting = Setting(recipe=recipe, **{name: given[name] for name in SETTING})
    inputs = {name: value for name, value in given.items() if name not in SETTING}
    for name, value in inputs.items():
        wanted = setting.scored if isinstance(value, Reference) else setting.subject
        if isinstance(value, Measured | Reference) and value.subject != wanted:
            raise explain_outdated(datasets[name])
    made = function(setting=setting, **bound, **inputs)
    return made.model_copy(update={"subject": setting.subject}) if isinstance(made, Measured) else made
