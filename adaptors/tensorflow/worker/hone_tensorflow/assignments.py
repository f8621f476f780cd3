"""Find the variables that a function assigns, from its graph and those of the functions that it calls."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from .models import SEED

_ASSIGNS = re.compile(r"Assign(Add|Sub)?(VariableOp)?|Resource(Scatter|Apply|SparseApply|StridedSliceAssign|Count)\w*")
"""Operators that change the variable at their first input."""
_SKIPPED = {"If": 1, "StatelessIf": 1, "Case": 1, "StatelessCase": 1}
"""The number of an operator's inputs before those of its functions."""

Handles = Mapping[str, str]
"""Tensors of a graph that are handles of variables, by the names of the tensors."""


def find_assigned(function: Any, variables: Iterable[Any]) -> list[str]:
    """Return the names of the variables that a concrete function assigns, except those of Keras's generators.

    Args:
        function: The function.
        variables: The variables of functions within it, if known.
    """
    definition = function.graph.as_graph_def()
    library = {one.signature.name: one for one in definition.library.function}
    owners = {id(one.handle): one.name.partition(":")[0] for one in (*variables, *function.graph.variables)}
    handles = {
        inner.name.partition(":")[0]: owners[id(outer)]
        for outer, inner in function.graph.captures
        if id(outer) in owners
    }
    return sorted({name for name in _walk(definition.node, handles, library) if SEED not in name})


def _walk(nodes: Iterable[Any], handles: Handles, library: Mapping[str, Any]) -> Iterator[str]:
    """Yield the names of assigned variables; each node must follow the nodes whose results it uses."""
    known = dict(handles)
    for node in nodes:
        given = [one.partition(":")[0] for one in node.input if not one.startswith("^")]
        if node.op == "Placeholder" or node.op.startswith(("VarHandle", "Variable")):
            known.setdefault(node.name, node.name)
        elif node.op in {"Identity", "Enter", "Switch"} and given:
            known[node.name] = known.get(given[0], "")
        if _ASSIGNS.fullmatch(node.op):
            yield known.get(given[0]) or node.name
        for called in _list_called(node, library):
            names = [one.name for one in called.signature.input_arg]
            passed = given[_SKIPPED.get(node.op, 0) :]
            inner = {name: known.get(one, "") for name, one in zip(names, passed)}  # noqa: B905 - control inputs are cut
            yield from _walk(_sort(called.node_def), inner, library)


def _list_called(node: Any, library: Mapping[str, Any]) -> list[Any]:
    names = [one.func.name for one in node.attr.values() if one.HasField("func")]
    names += [func.name for one in node.attr.values() for func in one.list.func]
    return [library[name] for name in names if name in library]


def _sort(nodes: Iterable[Any]) -> list[Any]:
    """Return the nodes of a function with handles first, since a function's nodes may be in any order."""
    return sorted(nodes, key=lambda node: node.op not in {"Placeholder", "Identity", "VarHandleOp"})
