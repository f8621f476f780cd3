"""The structure of a model's result: a tensor, or a tuple, list or dictionary of tensors; anything else is refused.

A result may hold tensors one level deep: the specs of an artifact are a flat list, and so are the results of most
runtimes. The structure is noted in the source artifact, so that ``kedro_hone.load`` can give it back.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch.utils import _pytree as pytree

ADVICE = "return a tensor, or one tuple, list or dictionary of tensors (a small module around the model can do that)"


def rebuild(program: torch.export.ExportedProgram) -> Any:
    """Return an exported program's result with placeholders for its tensors, without running it."""
    values = {node.name: node.meta.get("val") for node in program.graph.nodes}
    leaves = [values.get(name) if isinstance(name, str) else name for name in program.graph_signature.user_outputs]
    return pytree.tree_unflatten(leaves, program.call_spec.out_spec)


def find_refusal(value: Any) -> str | None:
    """Return why a result is not taken, or None."""
    if isinstance(value, torch.Tensor):
        return None
    if not isinstance(value, Mapping | tuple | list) or not value:
        nothing = "nothing in its " if isinstance(value, Mapping | tuple | list) else ""
        return f"the model returns {nothing}{_name(value)}; {ADVICE}"
    for key, item in value.items() if isinstance(value, Mapping) else enumerate(value):
        if not isinstance(key, str | int):
            return f"the model returns a dictionary with the key {key!r}, which is neither text nor a number"
        absent = item is None and isinstance(value, Mapping)
        if not absent and not isinstance(item, torch.Tensor):
            return f"the model returns a {_name(value)} whose item {key!r} is {_name(item)}, no tensor; {ADVICE}"
    return None


def describe(value: Any, names: Sequence[str]) -> dict[str, Any]:
    """Return the structure of a result, whose tensors have these names in order, as a note; none for a tensor.

    ``structure`` has ``kind`` (``tuple``, ``list`` or ``dict``), and the ``items``: each tensor's name, in a
    dictionary with its key before it; a value that is None stays so.
    """
    if isinstance(value, torch.Tensor):
        return {}
    if not isinstance(value, Mapping):
        return {"structure": {"kind": "list" if isinstance(value, list) else "tuple", "items": list(names)}}
    given = iter(names)
    pairs = [[key, None if item is None else next(given)] for key, item in value.items()]
    return {"structure": {"kind": "dict", "items": pairs}}


def name_outputs(value: Any) -> dict[str, torch.Tensor]:
    """Return a result as tensors by name: a mapping's own names, else ``output_0`` and so on.

    Raises:
        TypeError: Such a result is not taken.
    """
    if isinstance(value, torch.Tensor):
        return {"output_0": value}
    if refusal := find_refusal(value):
        raise TypeError(refusal)
    if isinstance(value, Mapping):
        return {str(key): item for key, item in value.items() if item is not None}
    return {f"output_{index}": item for index, item in enumerate(value)}


def _name(value: Any) -> str:
    return "None" if value is None else type(value).__name__
