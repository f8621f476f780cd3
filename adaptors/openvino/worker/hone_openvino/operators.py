"""The operators of a graph as OpenVINO compiled it: fused, and in the types in which they run on this CPU."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hone_runtime.sessions.operators import count_kinds

if TYPE_CHECKING:
    from hone_runtime.sessions.operators import Operator

_NO_OPERATORS = {"Input", "Const", "Output", "ReadValue", "MemoryInput", "MemoryOutput", "Assign"}
_BYTE, _BOOLEAN = "u8", "boolean"
"""The type in which a compiled graph stores booleans, too, and that of the saved graph."""
_QUANTIZED = {_BYTE, "i8", "u4", "i4", "nf4"}


def count(compiled: Any, saved: Any) -> dict[str, dict[str, int]]:
    """Return how many operators a compiled model has, by precision and kind; ``saved`` is the model in its file."""
    types = {node.get_friendly_name(): {*map(_name_type, node.outputs())} for node in saved.get_ordered_ops()}
    booleans = {name for name, own in types.items() if _BOOLEAN in own}
    fake = any(node.get_type_name() == "FakeQuantize" for node in saved.get_ordered_ops())
    quantized = fake or any(own & _QUANTIZED for own in types.values())
    return count_kinds(list_operators(compiled.get_runtime_model(), booleans if quantized else None))


def list_operators(model: Any, booleans: set[str] | None) -> list[Operator]:
    """Return the operators of a runtime model, without those of constants, which run once, when it is compiled.

    Args:
        model: The runtime model.
        booleans: The names of the saved nodes that return booleans; None if all integers of eight bits are booleans.
    """
    found: list[Operator] = []
    constant: set[str] = set()
    truths: set[str] = set()  # nodes whose integers of eight bits are booleans
    for node in model.get_ordered_ops():
        name, kind = node.get_name(), _read(node, "layerType")
        sources = [(port.get_source_output(), port.get_source_output().get_node().get_name()) for port in node.inputs()]
        read = [
            _BOOLEAN if source in truths and _name_type(port) == _BYTE else _name_type(port) for port, source in sources
        ]
        if kind == "Const" or (sources and all(source in constant for _, source in sources)):
            constant.add(name)
        passed = _BOOLEAN in read and _BYTE not in read
        if booleans is None or passed or booleans.intersection(_read(node, "originalLayersNames").split(",")):
            truths.add(name)
        if name not in constant and kind not in _NO_OPERATORS:
            written = _read(node, "outputPrecisions").split(",")
            found.append((kind, read, [_BOOLEAN if name in truths and one == _BYTE else one for one in written]))
    return found


def _name_type(port: Any) -> str:
    return str(port.get_element_type().get_type_name())


def _read(node: Any, key: str) -> str:
    """Return an entry of a node's runtime information; empty if it has none."""
    told = node.get_rt_info()
    return str(told[key].value) if key in told else ""
