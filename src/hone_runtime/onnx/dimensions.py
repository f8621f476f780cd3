"""Dimensions of ONNX graphs: detect unknown ones, and write known sizes and names into a graph.

Exporters write unknown sizes in many ways: no name, ``?``, ``-1``, as a name or as a size. Two unknown sizes are not
equal, but ONNX Runtime treats equal names as equal sizes when it plans memory.

Toolchains' workers import this module as ``hone_runtime.onnx.dimensions``. Standard library only.
"""

from __future__ import annotations

import re
from typing import Any

_UNKNOWN = re.compile(r"\s*|\?+|-?\d+|none|null|unknown|unk__\d+", re.IGNORECASE)


def is_unknown(dim: Any) -> bool:
    """Return whether a dimension of a graph has neither a size nor a meaningful name."""
    if dim.HasField("dim_value"):
        return bool(dim.dim_value < 0)  # ONNX Runtime accepts no rows if it is 0
    return _UNKNOWN.fullmatch(dim.dim_param) is not None


def declare(model: Any, described: dict[str, Any]) -> None:
    """Write known facts about inputs and outputs into a graph, replacing its wrong declarations.

    These are names for dimensions without one, or with one that stands for several sizes; and the shapes of outputs
    that had another rank or size in a run.
    """
    specs = {spec["name"]: spec["shape"] for side in ("inputs", "outputs") for spec in described.get(side) or ()}
    returned = {value.name for value in model.graph.output}
    known = [(value, specs[value.name]) for value in (*model.graph.input, *model.graph.output) if value.name in specs]
    for value, shape in known:
        dims = value.type.tensor_type.shape.dim
        if value.name in returned and _contradicts(dims, shape):
            del dims[:]
            for _ in shape:
                dims.add()
    pairs = [pair for value, shape in known for pair in zip(value.type.tensor_type.shape.dim, shape, strict=False)]
    meant: dict[str, set[int | str]] = {}
    for dim, size in pairs:
        meant.setdefault(dim.dim_param, set()).add(size)
    several = {name for name, sizes in meant.items() if len(sizes) > 1}
    for dim, size in pairs:
        if is_unknown(dim) or dim.dim_param in several - {""}:
            write(dim, size)


def write(dim: Any, size: int | str) -> None:
    """Write a size, or its name, into a dimension."""
    dim.Clear()
    if isinstance(size, int):
        dim.dim_value = size
    else:
        dim.dim_param = size


def _contradicts(dims: Any, known: list[int | str]) -> bool:
    """Return whether a declared shape has another rank than the known one, or another fixed size."""
    if len(dims) != len(known):
        return True
    return any(
        dim.HasField("dim_value") and dim.dim_value >= 0 and dim.dim_value != size
        for dim, size in zip(dims, known, strict=True)
    )
