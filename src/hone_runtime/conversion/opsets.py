"""Versions of ONNX: convert a model to an older or newer opset, and to an older IR version.

Toolchains' workers import this module as ``hone_runtime.conversion.opsets``. Needs NumPy and ONNX, from 1.14 on.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import onnx
from onnx import helper, numpy_helper

from hone_runtime.worker.refusal import UnsuitedError

Json = dict[str, Any]

OWN = ("", "ai.onnx")
"""The names of the domain of ONNX's own operators."""
_NEW_MEANING = {"GridSample", "GroupNormalization", "Resize"}
"""Operators whose meaning changed between opsets; for all others, a new opset only added types and inputs."""
_GELU_OPSET = 20
_DEFAULTS = {"block_size": 0, "output_dtype": 0, "precision": 0, "round_mode": b"up"}
"""Attributes added in opset 20, with the behaviour of older opsets; the installed ONNX may not have them."""


def fit_versions(model: Any, takes: Json, *, prefer: int | None, check: Callable[[Any], str]) -> Any:
    """Return a model in an allowed opset and IR version, by ONNX's converter or else by relabelling.

    The converter supports neither opsets newer than itself nor all operators. Between opsets, nearly all operators only
    gained types, attributes and inputs. So a new opset number is enough if ONNX's checker accepts all operators.

    Args:
        model: The model, which may be modified.
        takes: The consumer's ``opsets``, lowest and highest, and the highest ``ir``; None for no limit.
        prefer: The opset that is tried first if the model has a higher one; by default the highest that is allowed.
        check: Returns the fault of a model, or an empty string.

    Raises:
        UnsuitedError: No attempt gave a correct model.
    """
    if takes.get("ir"):
        model.ir_version = min(model.ir_version, takes["ir"])
    written = find_opset(model)
    lowest, highest = takes.get("opsets") or (1, None)
    targets = _choose_opsets(written, lowest=lowest, highest=highest or written, prefer=prefer)
    if written == targets[0]:
        return model
    fault = ""
    for target in targets:
        known = _expand_gelu(model) if target < _GELU_OPSET <= written else model
        for write in (_convert, _relabel):
            try:
                made = write(known, target)
            except Exception as error:  # noqa: BLE001 - the converter, the checker and the inference have their own
                fault = _find_absent(known, target) or _first_line(error)
                continue
            if not (fault := check(made)):
                return made
    raise UnsuitedError(f"its opset is {written}, and it cannot be written in opset {targets[-1]}: {fault}")


def _choose_opsets(written: int, *, lowest: int, highest: int, prefer: int | None) -> list[int]:
    """Return the opsets to try for a model, the best first."""
    if written < lowest:
        return [lowest]
    return [*dict.fromkeys(min(written, each) for each in (prefer or highest, highest))]


def find_opset(model: Any) -> int:
    """Return the version of ONNX's own operators."""
    return int(next(entry.version for entry in model.opset_import if entry.domain in OWN))


def list_nodes(model: Any) -> Iterator[Any]:
    """Yield the nodes of a model, at any depth."""
    for part in (model.graph, *model.functions):
        yield from _list_inner(part.node)


def _list_inner(nodes: Any) -> Iterator[Any]:
    for node in nodes:
        yield node
        for attribute in node.attribute:
            for inner in (attribute.g, *attribute.graphs):
                yield from _list_inner(inner.node)


def strip(model: Any, opset: int | None = None) -> None:
    """Remove recorded shapes, which may be wrong, and declared domains without operators."""
    used = {node.domain for node in list_nodes(model)} - {*OWN}
    kept = [(entry.domain, entry.version) for entry in model.opset_import if entry.domain in used]
    own = opset or find_opset(model)
    del model.graph.value_info[:]
    del model.opset_import[:]
    model.opset_import.extend(helper.make_opsetid(*each) for each in [("", own), *kept])


def _convert(model: Any, opset: int) -> Any:
    """Return a checked model in another opset, by ONNX's own converter."""
    made = onnx.version_converter.convert_version(model, opset)
    made.ir_version = model.ir_version
    strip(made)
    onnx.checker.check_model(made, full_check=True)
    return made


def _relabel(model: Any, opset: int) -> Any:
    """Return a checked copy of a model with another opset number."""
    if changed := sorted({node.op_type for node in list_nodes(model)} & _NEW_MEANING):
        raise UnsuitedError(f"{', '.join(changed)} means something else there")
    made = onnx.ModelProto()
    made.CopyFrom(model)
    for node in list_nodes(made):
        _drop_defaults(node, written=find_opset(model), opset=opset)
    strip(made, opset)
    onnx.checker.check_model(made, full_check=True)
    return made


def _drop_defaults(node: Any, *, written: int, opset: int) -> None:
    """Remove attributes that an older opset lacks, if their value is its default behaviour."""
    try:
        newer, older = (onnx.defs.get_schema(node.op_type, each, node.domain).attributes for each in (written, opset))
    except Exception:  # noqa: BLE001 - SchemaError is in no public module; the checker names the operator
        return
    defaults = _DEFAULTS | {
        name: helper.get_attribute_value(each.default_value) for name, each in newer.items() if each.default_value.type
    }
    for each in [each for each in node.attribute if each.name in defaults.keys() - older.keys()]:
        if helper.get_attribute_value(each) == defaults[each.name]:
            node.attribute.remove(each)


def _find_absent(model: Any, opset: int) -> str:
    """Return an operator of the model that an opset lacks, or an empty string."""
    absent = sorted({node.op_type for node in list_nodes(model) if not _is_known(node.op_type, opset)})
    return f"that has no {', '.join(absent)}" if absent else ""


def _is_known(name: str, opset: int) -> bool:
    try:
        onnx.defs.get_schema(name, opset, "")
    except Exception:  # noqa: BLE001 - SchemaError is in no public module
        return False
    return True


def _expand_gelu(model: Any) -> Any:
    """Return a copy of a model with each Gelu, an operator since opset 20, replaced by the operators that define it."""
    made = onnx.ModelProto()
    made.CopyFrom(model)
    nodes = [each for node in made.graph.node for each in (_write_gelu(node) if node.op_type == "Gelu" else [node])]
    del made.graph.node[:]
    made.graph.node.extend(nodes)
    return made


def _write_gelu(node: Any) -> list[Any]:
    """Return x * (1 + erf(x / sqrt(2))) / 2, or its tanh approximation, as ONNX defines both, in nodes of fp32."""
    (x,), (y,), made = node.input, node.output, list[Any]()

    def add(kind: str, *inputs: str | float, output: str = "") -> str:
        names = [each if isinstance(each, str) else add_constant(each) for each in inputs]
        made.append(helper.make_node(kind, names, [output or f"{y}_gelu_{len(made)}"]))
        return str(made[-1].output[0])

    def add_constant(number: float) -> str:
        value = numpy_helper.from_array(np.asarray(number, np.float32))
        made.append(helper.make_node("Constant", [], [f"{y}_gelu_{len(made)}"], value=value))
        return str(made[-1].output[0])

    if any(each.name == "approximate" and each.s == b"tanh" for each in node.attribute):
        cube = add("Mul", add("Mul", add("Mul", x, x), x), 0.044715)
        inner = add("Tanh", add("Mul", add("Add", x, cube), math.sqrt(2 / math.pi)))
    else:
        inner = add("Erf", add("Div", x, math.sqrt(2)))
    add("Mul", add("Mul", x, add("Add", inner, 1.0)), 0.5, output=y)
    return made


def _first_line(error: Exception) -> str:
    return next(iter(str(error).strip().splitlines()), type(error).__name__)[:300]
