"""ONNX graphs with a cache of keys and values, as pytorch.onnx-traced writes them: find and remove the cache."""

from __future__ import annotations

from typing import Any

import onnx

_WHOLE = " + past"  # suffix for the number of columns that includes the cached ones, in a graph with a cache
_SHIFT = "position_shift"


def list_cache(model: Any) -> list[str]:
    """Return the names of the keys and values that a graph accepts as optional inputs, and returns, such as ``0.key``.

    The list is empty for a graph without a cache.
    """
    defaults, returned = {tensor.name for tensor in model.graph.initializer}, {each.name for each in model.graph.output}
    taken = [value.name for value in model.graph.input if value.name in defaults]
    ends = [name.removeprefix("past_key_values.") for name in taken if name.startswith("past_key_values.")]
    return ends if {f"present.{end}" for end in ends} <= returned else []


def drop_cache(model: Any) -> bool:
    """Change a graph, in place, to compute whole sequences only; return whether it had a cache."""
    ends = list_cache(model)
    if not ends:
        return False
    name_columns(model)
    past, present = ({f"{word}.{end}" for end in ends} for word in ("past_key_values", "present"))
    for node in [node for node in model.graph.node if node.op_type == "Concat" and past.intersection(node.input)]:
        new = next(name for name in node.input if name not in past)
        node.CopyFrom(onnx.helper.make_node("Identity", [new], list(node.output), name=node.name))
    for field in ("input", "output", "initializer"):
        values = getattr(model.graph, field)
        gone = past | present if field == "initializer" else {*past, *present, _SHIFT}
        left = [value for value in values if value.name not in gone]
        del values[:]
        values.extend(left)
    return True


def name_columns(model: Any) -> None:
    """Rename the columns of the mask as in the source: with the name of the new columns."""
    for value in (*model.graph.input, *model.graph.output):
        for dim in value.type.tensor_type.shape.dim:
            if dim.dim_param.endswith(_WHOLE):
                dim.dim_param = dim.dim_param.removesuffix(_WHOLE)
