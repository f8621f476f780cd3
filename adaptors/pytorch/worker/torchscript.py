"""TorchScript: a model of either format, traced and frozen."""

from __future__ import annotations

import json
from pathlib import Path

import torch
from torch import fx

from . import archive, jobs, models
from .models import Flat, Job, Notes, Spec


def trace(job: Job) -> Notes:
    """Trace a model into frozen TorchScript and check it at another batch size."""
    flat, inputs, outputs = _open_flat(job)
    sizes = jobs.choose_sizes(job, inputs)
    examples = jobs.make_examples(inputs, sizes, job["calibration"])
    others = jobs.make_examples(inputs, {**sizes, "batch": 5}, None)
    with torch.no_grad():
        try:
            script = torch.jit.freeze(torch.jit.trace(flat, examples, check_trace=False))
        except Exception as error:  # noqa: BLE001 - the tracer raises many classes
            return jobs.fail("compile", "the model cannot be traced", error)
        try:
            pairs = zip(script(*others), flat(*others), strict=True)
            same = all(a.shape == b.shape and torch.allclose(a, b, rtol=1e-3, atol=1e-4) for a, b in pairs)
        except RuntimeError as error:
            return jobs.fail("compile", "the traced model takes no other batch size", error)
    if not same:
        reason = "the traced model returns other values at another batch size: it branches on its input"
        return jobs.fail("numerics", reason)
    names = json.dumps({"inputs": inputs, "outputs": outputs})
    torch.jit.save(script, Path(job["output"]) / "model.ts", _extra_files={archive.NAMES_FILE: names})
    return {"outputs": outputs}


def _open_flat(job: Job) -> tuple[Flat, list[Spec], list[Spec]]:
    """Return a flat model of either format with its specs."""
    if job["input"]["format"] == "pytorch-module":
        flat, inputs, known = jobs.open_module(job)
        return flat, inputs, job["input"].get("outputs") or jobs.describe_module(job, flat, inputs, known)["outputs"]
    program, described = jobs.read_program(job)
    flat = models.flatten_program(program)
    for module in flat.modules():
        if isinstance(module, fx.GraphModule):
            _make_traceable(module)
    return flat, described["inputs"], described["outputs"]


def _make_traceable(module: fx.GraphModule) -> None:
    """Let the tracer see the sizes that an exported program computes with.

    An export states sizes as ``aten.sym_size`` and passes them to operators; the tracer writes down what both of these
    returned for the example, as constants. It follows sizes through ``Tensor.size`` and the functions of Python's
    ``torch`` only, which are the same operators. The program's own check of its inputs is Python and cannot be traced.
    The module, which ``ExportedProgram.module`` returned, is changed in place.
    """
    module.validate_inputs = False
    for node in module.graph.nodes:
        if node.target is torch.ops.aten.sym_size.int:
            node.op, node.target = "call_method", "size"
        elif hasattr(node.target, "overloadpacket") and any(map(_is_size, node.all_input_nodes)):
            _call_from_python(node)
    module.recompile()


def _is_size(node: fx.Node) -> bool:
    return isinstance(node.meta.get("val"), torch.SymInt | torch.SymFloat)


def _call_from_python(node: fx.Node) -> None:
    """Call Python's method or function of an operator's name instead of the operator, where there is one."""
    name = node.target.overloadpacket.__name__
    first = node.args[0] if node.args else None
    of_tensor = isinstance(first, fx.Node) and isinstance(first.meta.get("val"), torch.Tensor)
    if node.target is torch.ops.aten.slice.Tensor:
        node.target = _slice_tensor
    elif of_tensor and hasattr(torch.Tensor, name):
        node.op, node.target = "call_method", name
    elif function := getattr(torch, name, None):
        node.target = function


def _slice_tensor(
    tensor: torch.Tensor, dim: int = 0, start: int | None = None, end: int | None = None, step: int = 1
) -> torch.Tensor:
    """Cut a tensor as ``aten.slice`` does, which has no name in Python."""
    return tensor[(slice(None),) * (dim % tensor.dim()) + (slice(start, end, step),)]
