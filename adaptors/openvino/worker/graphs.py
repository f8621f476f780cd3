"""IR graphs: a model's inputs and outputs, and its digest."""

from __future__ import annotations

import hashlib
import json
import xml.etree.ElementTree as ET
from pathlib import Path
from typing import Any

import numpy as np

from . import session

DIMENSIONS = "kedro_hone_dimensions"
"""Where an IR keeps the names of its dynamic dimensions, which OpenVINO itself drops."""


def describe(folder: str) -> dict[str, Any]:
    """Return the inputs, the outputs and the digest of the graph of ``model.xml``.

    Raises:
        ValueError: The files cannot be read.
    """
    model = session.read(folder)
    names = json.loads(str(model.get_rt_info(DIMENSIONS).value)) if model.has_rt_info(DIMENSIONS) else {}
    sides = {"inputs": model.inputs, "outputs": model.outputs}
    specs = {side: [_spec(port, names) for port in ports] for side, ports in sides.items()}
    return {**specs, "graph": _digest(Path(folder))}


def _spec(port: Any, names: dict[str, list[int | str]]) -> dict[str, Any]:
    """Return a tensor's specification; dimensions are named as the IR's source named them."""
    name, partial = session.find_name(port), port.get_partial_shape()
    if partial.rank.is_dynamic:
        raise ValueError(f"the rank of {name!r} is not fixed")
    known = dict(enumerate(names.get(name, [])))
    shape: list[int | str] = []
    for axis, dim in enumerate(partial):
        noted, fresh = known.get(axis), f"dim_{axis}" if axis else "batch"
        shape.append(dim.get_length() if dim.is_static else noted if isinstance(noted, str) else fresh)
    element = port.get_element_type()
    dtype = "bfloat16" if element.get_type_name() == "bf16" else np.dtype(element.to_dtype()).name
    return {"name": name, "dtype": dtype, "shape": shape}


def _digest(folder: Path) -> str:
    """Return a digest of operators, attributes, edges and weights, without names and without rt_info.

    Each constant is replaced by the hash of its bytes, so that its offset and its name do not change the digest.
    """
    weights = memoryview((folder / "model.bin").read_bytes())

    def strip(element: ET.Element) -> list[Any]:
        kept = {key: value for key, value in element.attrib.items() if key not in {"name", "names", "friendly_name"}}
        if "offset" in kept and "size" in kept:
            start = int(kept.pop("offset"))
            kept["bytes"] = hashlib.sha256(weights[start : start + int(kept["size"])]).hexdigest()
        children = [strip(child) for child in element if child.tag not in {"rt_info", "meta_data"}]
        return [element.tag, sorted(kept.items()), (element.text or "").strip(), children]

    tree = ET.parse(folder / "model.xml")  # noqa: S314 (expat bounds entities, the host bounds workers)
    return "sha256:" + hashlib.sha256(json.dumps(strip(tree.getroot())).encode()).hexdigest()


REACH = 4
"""How many operators (casts, masks, views) may be between the softmax and the matrix product of an attention."""


def has_attention(model: Any) -> bool:
    """Return whether a graph has attention: its operator, or a softmax whose result goes into a matrix product."""
    kinds = [(node.get_type_name(), node) for node in model.get_ops()]
    return any(
        kind == "ScaledDotProductAttention" or (kind == "Softmax" and _feeds(node, REACH)) for kind, node in kinds
    )


def _feeds(node: Any, reach: int) -> bool:
    """Return whether a matrix product takes what a node gives, directly or through a few others."""
    readers = [port.get_node() for output in node.outputs() for port in output.get_target_inputs()]
    return any(each.get_type_name() == "MatMul" or (reach > 1 and _feeds(each, reach - 1)) for each in readers)
