"""Arguments and results of an exported program other than tensors; refusals name the argument."""

from __future__ import annotations

from typing import Any

import torch
from torch.export.graph_signature import InputKind, OutputKind, TensorArgument
from torch.utils import _pytree as pytree

from . import models

_APART = "export a small module that takes each of its tensors as an argument of its own"


def find_refusal(program: torch.export.ExportedProgram) -> str | None:
    """Return why the arguments of a program are refused, with the first such argument's name; None if accepted.

    Only plain tensors can be fed: any other value was fixed by the export, and each caller would have to repeat it.
    """
    if nested := _find_nested(program):
        name, kind = nested
        return f"the program's argument {name[:80]!r} is a {kind} of tensors; {_APART}"
    for spec in program.graph_signature.input_specs:
        if spec.kind is not InputKind.USER_INPUT or isinstance(spec.arg, TensorArgument):
            continue
        name = spec.arg.name[:80]
        value = repr(spec.arg.value)[:80] if hasattr(spec.arg, "value") else "a number"
        return (
            f"the program's argument {name!r} is {value}, no tensor; export it without {name!r} where that is the "
            f"default of forward, else export a small module that calls it with {name}={value}"
        )
    return None


def _find_nested(program: torch.export.ExportedProgram) -> tuple[str, str] | None:
    """Return the name and the kind of the first argument that is a container of tensors."""
    arguments, keywords = program.call_spec.in_spec.children()
    signature = program.module_call_graph[0].signature if program.module_call_graph else None
    known = getattr(signature, "forward_arg_names", None) or ()
    given = [*arguments.children(), *keywords.children()]
    names = [f"number {place}" for place in range(arguments.num_children)] + list(keywords.context or ())
    names = list(known) if len(known) == len(given) else names
    return next(
        (
            (name, getattr(leaf.type, "__name__", "container"))
            for name, leaf in zip(names, given, strict=True)
            if not leaf.is_leaf()
        ),
        None,
    )


def read_result(program: torch.export.ExportedProgram) -> Any:
    """Return the structure of a program's result, without running it; a tensor is its value in the graph's metadata."""
    values = {node.name: node.meta.get("val") for node in program.graph.nodes}
    outputs = [spec.arg for spec in program.graph_signature.output_specs if spec.kind is OutputKind.USER_OUTPUT]
    leaves = [values[one.name] if isinstance(one, TensorArgument) else getattr(one, "value", 0) for one in outputs]
    return pytree.tree_unflatten(leaves, program.call_spec.out_spec)


def returns_none(program: torch.export.ExportedProgram) -> bool:
    """Return whether a program's results include None."""
    return None in program.graph_signature.user_outputs


def check(program: torch.export.ExportedProgram) -> str | None:
    """Return why a program's arguments or results are refused; None if they are accepted."""
    return find_refusal(program) or models.find_refusal(read_result(program))
