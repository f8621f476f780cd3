"""The operators that ONNX Runtime executes for a call, from its profile: fused, and in the types that kernels take."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import onnxruntime as ort

from hone_runtime.sessions.operators import count_kinds

if TYPE_CHECKING:
    from hone_runtime.sessions.operators import Operator

Json = dict[str, Any]

_CALLS = 7
"""The number of calls of which the shortest time of an operator is taken."""
_KERNEL = "_kernel_time"
_FOUR_BITS = {"MatMulNBits", "GatherBlockQuantized"}
_EIGHT_BITS = ("QLinear", "DynamicQuantize", "MatMulInteger", "ConvInteger", "QGemm", "QAttention")
"""Operators whose quantized weights are missing in a profile, since the kernel packed them. ``MatMulNBits`` may also
have weights of eight bits; ours have four."""


def count(path: Path, options: Any, feeds: Json) -> dict[str, dict[str, int]]:
    """Open a model again with these options and a profile, and return its operators in one call.

    A profile slows each call, so the session that is timed has none.
    """
    with tempfile.TemporaryDirectory() as folder:
        options.enable_profiling, options.profile_file_prefix = True, str(Path(folder, "profile"))
        session = ort.InferenceSession(path, options, providers=["CPUExecutionProvider"])
        session.run([output.name for output in session.get_outputs()], feeds)
        return count_kinds(list_operators(json.loads(Path(session.end_profiling()).read_text())))


def measure(path: Path, options: Any, feeds: Json) -> dict[str, float]:
    """Open a model again with these options and a profile, and return the seconds of its operators in one call.

    The time of an operator is the shortest of several calls, since other programs only lengthen it. ONNX Runtime names
    its fused operators itself.
    """
    with tempfile.TemporaryDirectory() as folder:
        options.enable_profiling, options.profile_file_prefix = True, str(Path(folder, "profile"))
        session = ort.InferenceSession(path, options, providers=["CPUExecutionProvider"])
        names = [output.name for output in session.get_outputs()]
        for _ in range(_CALLS):
            session.run(names, feeds)
        events = json.loads(Path(session.end_profiling()).read_text())
    spent: dict[str, list[float]] = {}
    for event in events:
        if event.get("cat") == "Node" and event["name"].endswith(_KERNEL):
            spent.setdefault(event["name"].removesuffix(_KERNEL), []).append(event["dur"] / 1e6)
    return {name: min(found) * len(found) / _CALLS for name, found in spent.items()}


def list_operators(events: list[Json]) -> list[Operator]:
    """Return the operators in the events of a profile; one in the body of a loop is listed once."""
    found: dict[tuple[str, str], Operator] = {}
    for event in events:
        told = event.get("args", {})
        if event.get("cat") == "Node" and "op_name" in told and "output_type_shape" in told:
            read, written = (
                [name for each in told.get(side) or () for name in each]
                for side in ("input_type_shape", "output_type_shape")
            )
            packed = _name_packed(told["op_name"])
            found[event["name"], told.get("node_index", "")] = (told["op_name"], [*packed, *read], written)
    return [*found.values()]


def _name_packed(kind: str) -> list[str]:
    """Return the type of an operator's quantized weights, from its kind; empty for any other."""
    if kind in _FOUR_BITS:
        return ["int4"]
    return ["int8"] if kind.startswith(_EIGHT_BITS) else []
