"""Place a node in the graph: give its function the setting and what is bound, and name its datasets."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial, update_wrapper
from typing import Any

from kedro.pipeline import Node, Pipeline

from kedro_hone.comparing.lineage import digest_recipe, trace
from kedro_hone.comparing.setting import Setting
from kedro_hone.core.contract.registry import VersionInfo
from kedro_hone.core.values.base import Made
from kedro_hone.recipe.schema import Recipe

PARAMETERS = "params:hone"
PLACE = ("store", "run")
SETTING = ("source", "samples", *PLACE)


@dataclass(frozen=True, kw_only=True)
class _Call:
    """A node's function, and what it is called with besides the values of the catalog."""

    function: Callable[..., Any]
    inputs: Mapping[str, str]  # from argument to dataset, without those of the setting
    outputs: Sequence[str]
    decided_by: Sequence[str]
    bound: Mapping[str, Any] = field(default_factory=dict)
    in_setting: bool = True


def place_node(
    function: Callable[..., Any],
    *,
    name: str,
    inputs: Mapping[str, str],
    output: str | Sequence[str],
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
    outputs = [output] if isinstance(output, str) else [*output]
    call = _Call(function=function, inputs=inputs, outputs=outputs, decided_by=decided_by, bound=bound)
    node = _make_node(call, name=name, tags=tags)
    connected = {**{argument: argument for argument in SETTING}, **inputs}
    return Pipeline([node], namespace=namespace, inputs=connected, parameters={PARAMETERS: PARAMETERS})


def place_first(
    function: Callable[..., Any],
    *,
    name: str,
    inputs: Sequence[str] = (),
    output: str | Sequence[str],
    decided_by: Sequence[str],
) -> Node:
    """Return a node that makes a part of the setting: its function is called with ``recipe``, ``store`` and ``run``."""
    outputs, given = [output] if isinstance(output, str) else [*output], {name: name for name in inputs}
    call = _Call(function=function, inputs=given, outputs=outputs, decided_by=decided_by, in_setting=False)
    return _make_node(call, name=name)


def _make_node(call: _Call, *, name: str, tags: Sequence[str] = ()) -> Node:
    # Kedro reads name and type hints of the function, and ParallelRunner pickles it.
    run = update_wrapper(partial(_run, call=call), _run)
    run.__name__ = call.function.__name__
    arguments = [*(SETTING if call.in_setting else PLACE), *call.inputs]
    given = {**{argument: argument for argument in arguments}, "recipe": PARAMETERS}
    outputs = [*call.outputs]
    return Node(run, given, outputs if len(outputs) > 1 else outputs[0], name=name, tags=[*tags])


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
    if len(call.outputs) == 1:
        return _sign(made, origins)
    return tuple(_sign_all(made, call.outputs, origins))


def _sign_all(made: Sequence[Any], names: Sequence[str], origins: Mapping[str, str]) -> list[Any]:
    """Let each of several results name those before it, too: they belong together."""
    signed: list[Any] = []
    for name, value in zip(names, made, strict=True):
        signed.append(_sign(value, origins))
        if isinstance(value, Made | VersionInfo):
            origins = {**origins, name: signed[-1].identity}
    return signed


def _sign(value: Any, origins: Mapping[str, str]) -> Any:
    return value.model_copy(update={"made_from": dict(origins)}) if isinstance(value, Made) else value
