"""The structure of a model's result: a tensor, or a tuple, list or dictionary of tensors; anything else is refused.

A result may hold tensors one level deep: the specs of an artifact are a flat list, and so are the results of most
runtimes. The structure is noted in the source artifact, so that ``kedro_hone.load`` can give it back.
"""

from __future__ import annotations

import json
import zipfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from torch.utils import _pytree as pytree

Notes = dict[str, Any]

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
    if not isinstance(value, Mapping | tuple | list):
        return f"the model returns {_name(value)}; {ADVICE}"
    if not value:
        return f"the model returns nothing in its {_name(value)}; {ADVICE}"
    for key, item in value.items() if isinstance(value, Mapping) else enumerate(value):
        if not isinstance(key, str | int):
            return f"the model returns a dictionary with the key {key!r}, which is neither text nor a number"
        absent = item is None and isinstance(value, Mapping)
        if not absent and not isinstance(item, torch.Tensor):
            return f"the model returns a {_name(value)} whose item {key!r} is {_name(item)}, no tensor; {ADVICE}"
    return None


def describe(value: Any, names: Sequence[str]) -> Notes:
    """Return the structure of a result as a note, or no note for a tensor.

    Args:
        value: The result; ``find_refusal`` found nothing wrong with it.
        names: The names of its tensors, in order.

    Returns:
        ``structure``: ``kind`` (``tuple``, ``list`` or ``dict``), and the ``items``: each tensor's name, in a
        dictionary with its key before it; a value that is None stays so.
    """
    if isinstance(value, torch.Tensor):
        return {}
    given = iter(names)
    if isinstance(value, Mapping):
        pairs = [[key, None if item is None else next(given)] for key, item in value.items()]
        return {"structure": {"kind": "dict", "items": pairs}}
    return {"structure": {"kind": "list" if isinstance(value, list) else "tuple", "items": list(given)}}


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
    return {"NoneType": "None"}.get(type(value).__name__, type(value).__name__)


def find_unknown_class(path: Path) -> str | None:
    """Return the name of a class that a saved program's result is of and that nothing here has registered, or None.

    ``torch.export.load`` refuses such a file without saying why. None, too, for a file that is no such archive.
    """
    try:
        with zipfile.ZipFile(path) as archive:
            text = next(archive.read(name) for name in archive.namelist() if name.endswith("/models/model.json"))
        signature = json.loads(text)["graph_module"]["module_call_graph"][0]["signature"]
        waiting = [json.loads(signature["out_spec"])[1]]
        while waiting:
            spec = waiting.pop()
            if spec["type"] is not None and spec["type"] not in pytree.SERIALIZED_TYPE_TO_PYTHON_TYPE:
                return str(spec["type"])
            waiting += spec["children_spec"]
    except (zipfile.BadZipFile, ValueError, KeyError, IndexError, TypeError, StopIteration):
        return None
    return None
