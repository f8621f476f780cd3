"""Place a node in the graph: bind arguments of its function, and name its datasets."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial, update_wrapper
from typing import Any

from kedro.pipeline import Node, Pipeline

PARAMETERS = "params:hone"
PLACES = {"store": "store", "run": "run"}


def bind(function: Callable[..., Any], **place: Any) -> Callable[..., Any]:
    """Return a function with some keyword arguments set.

    It keeps the function's name and type hints, which Kedro reads, and can be pickled, which ParallelRunner needs.

    Args:
        function: A node's function.
        **place: Arguments that the graph sets, such as an adaptor's name or a route.

    Returns:
        The bound function.
    """
    bound = partial(function, **place)
    update_wrapper(bound, function)
    return bound


def place_node(
    function: Callable[..., Any],
    *,
    name: str,
    inputs: Mapping[str, str],
    output: str | Sequence[str],
    namespace: str | None = None,
    tags: Sequence[str] = (),
) -> Pipeline:
    """Return a pipeline of one node.

    Datasets with a namespace are connected from outside, since Kedro warns of names with dots inside a node.

    Args:
        function: What runs; its arguments are the keys of ``inputs``, next to ``recipe``, ``store`` and ``run``.
        name: The node's name within its namespace.
        inputs: Its arguments and the datasets that they are read from.
        output: The dataset that it makes, or several; each gets the namespace as a prefix.
        namespace: The node's namespace.
        tags: Its tags.

    Returns:
        The pipeline.
    """
    outputs = output if isinstance(output, str) else [*output]
    given = {**{argument: argument for argument in inputs}, "recipe": PARAMETERS, **PLACES}
    node = Node(function, given, outputs, name=name, tags=[*tags])
    connected = {**PLACES, **inputs}
    return Pipeline([node], namespace=namespace, inputs=connected, parameters={PARAMETERS: PARAMETERS})
