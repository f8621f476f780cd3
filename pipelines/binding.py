"""Place a node in the graph: give its function the setting and what is bound, and name its datasets."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial, update_wrapper
from typing import Any

from kedro.pipeline import Node, Pipeline

from kedro_hone.comparing.setting import Setting, explain_outdated
from kedro_hone.core.store.artifacts import Store
from kedro_hone.core.store.runs import RunFolder
from kedro_hone.core.values.artifact import Artifact
from kedro_hone.core.values.measurement import Measured
from kedro_hone.core.values.samples import Reference, Samples
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
    """Return a pipeline of one node.

    Datasets with a namespace are connected from outside, since Kedro warns of names with dots inside a node.

    Args:
        function: What runs; its arguments are the keys of ``inputs`` and ``bound``, next to ``setting``.
        name: The node's name within its namespace.
        inputs: Its arguments and the datasets that they are read from.
        output: The dataset that it makes, or several; each gets the namespace as a prefix.
        namespace: The node's namespace.
        tags: Its tags.
        **bound: Arguments that the graph sets, such as an adaptor's name or a route.
    """
    # Kedro reads name and type hints of the function, and ParallelRunner pickles it.
    run = update_wrapper(partial(_run_in_setting, function=function, bound=bound, datasets={**inputs}), _run_in_setting)
    run.__name__ = function.__name__
    connected = {**SETTING, **inputs}
    given = {**{argument: argument for argument in connected}, "recipe": PARAMETERS}
    node = Node(run, given, output if isinstance(output, str) else [*output], name=name, tags=[*tags])
    return Pipeline([node], namespace=namespace, inputs=connected, parameters={PARAMETERS: PARAMETERS})


def _run_in_setting(
    *,
    source: Artifact,
    samples: Samples,
    recipe: Recipe,
    store: Store,
    run: RunFolder,
    function: Callable[..., Any],
    bound: Mapping[str, Any],
    datasets: Mapping[str, str],
    **inputs: Any,
) -> Any:
    setting = Setting(source=source, samples=samples, recipe=recipe, store=store, run=run)
    for name, value in inputs.items():
        _check_subject(datasets[name], value, setting)
    made = function(setting=setting, **bound, **inputs)
    return made.model_copy(update={"subject": setting.subject}) if isinstance(made, Measured) else made


def _check_subject(name: str, value: Any, setting: Setting) -> None:
    """Refuse a persisted value of another model, other data or another recipe: nodes and pipelines can run alone."""
    wanted = setting.scored if isinstance(value, Reference) else setting.subject
    if isinstance(value, Measured | Reference) and value.subject != wanted:
        raise explain_outdated(name)
