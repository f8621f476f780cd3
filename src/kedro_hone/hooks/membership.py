"""Recognize kedro-hone's nodes: the hooks do not affect other pipelines of a project."""

from __future__ import annotations

from collections.abc import Iterable

from kedro.pipeline import Pipeline
from kedro.pipeline.node import Node

_PACKAGE = __name__.partition(".")[0]


def is_own(node: Node) -> bool:
    """Return whether a node's function is kedro-hone's, whatever its name and namespace."""
    return str(getattr(node.func, "__module__", "")).partition(".")[0] == _PACKAGE


def has_own(pipeline: Pipeline) -> bool:
    """Return whether any node of a pipeline is kedro-hone's."""
    return any(map(is_own, pipeline.nodes))


def list_datasets(nodes: Iterable[Node]) -> set[str]:
    """Return the datasets of kedro-hone's nodes, without those that another package's node writes.

    Such a name may mean something else there.
    """
    nodes = [*nodes]
    named = {name for node in nodes if is_own(node) for name in (*node.inputs, *node.outputs)}
    return named - {name for node in nodes if not is_own(node) for name in node.outputs}
