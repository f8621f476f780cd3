"""Put a node at its place in the graph: what the place says to its function, and what its datasets are called there."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from functools import partial, update_wrapper
from typing import Any

from kedro.pipeline import Node, Pipeline

from kedro_hone.comparing.log import record

PARAMETERS = "params:hone"


def bind(function: Callable[..., Any], **place: Any) -> Callable[..., Any]:
    """Return a function with some keyword arguments set.

    It keeps the function's name and type hints, which Kedro reads, and can be pickled, which ParallelRunner asks for.

    Args:
        function: A node's function.
        **place: What the graph knows: an adaptor's name, a route.

    Returns:
        The bound function.
    """
    bound = partial(function, **place)
    update_wrapper(bound, function)
    return bound


def log(function: Callable[..., Any], *, node: str) -> Callable[..., Any]:
    """Return a node's function that also returns what it did, see ``nodes.log``; its second output is ``name_log``.

    Args:
        function: The node's function.
        node: The node's name, with its namespace.

    Returns:
        The function, which can be pickled as that of ``bind``.
    """
    logged = partial(record, function=function, node=node)
    update_wrapper(logged, function)
    # Kedro orders a node's inputs by the wrapper's signature, and reads their types from that of the function.
    vars(logged)["__signature__"] = inspect.signature(function, follow_wrapped=False)
    return logged


def name_log(output: str) -> str:
    """Return the name of the dataset that holds the log of the node that makes another one."""
    return f"{output}_log"


def place_node(
    function: Callable[..., Any],
    *,
    name: str,
    inputs: Mapping[str, str],
    output: str | Sequence[str],
    namespace: str | None = None,
    tags: Sequence[str] = (),
) -> Pipeline:
    """Return a pipeline of one node. A node with one output makes its log too.

    Datasets with a namespace are connected from outside, since Kedro warns of names with dots inside a node.

    Args:
        function: What runs; its arguments are the keys of ``inputs``, next to ``recipe`` and ``workplace``.
        name: The node's name within its namespace.
        inputs: Its arguments and the datasets that they are read from.
        output: The dataset that it makes, or several; its own namespace stands before each.
        namespace: Where the node stands.
        tags: Its tags.

    Returns:
        The pipeline.
    """
    arguments = {argument: argument for argument in inputs}
    outputs = [*output]
    if isinstance(output, str):
        function, outputs = log(function, node=f"{namespace}.{name}" if namespace else name), [output, name_log(output)]
    given = {**arguments, "recipe": PARAMETERS, "workplace": "workplace"}
    node = Node(function, given, outputs, name=name, tags=[*tags])
    connected = {"workplace": "workplace", **inputs}
    return Pipeline([node], namespace=namespace, inputs=connected, parameters={PARAMETERS: PARAMETERS})
