"""Export flat models with ``torch.export``, with the known sizes and bounds."""

from __future__ import annotations

import inspect
import re
from collections.abc import Mapping, Sequence
from typing import Any

import torch

from . import jobs, models
from .models import Flat, Job, Notes, Spec


def has_plain_rows(program: torch.export.ExportedProgram) -> bool:
    """Return whether a program was exported for contiguous rows, as are those that are fed.

    If an example is a column of a table, or a view of a larger tensor, the strides contain symbols. A decomposition may
    fail for such a symbol, since torch stores no range for it when the program is saved.
    """
    values = {node.name: node.meta.get("val") for node in program.graph.nodes}
    return all(_is_contiguous(values[str(name)]) for name in program.graph_signature.user_inputs)


def _is_contiguous(value: Any) -> bool:
    """Compare strides as written: comparing symbols would add a guard to the program."""
    due: Any = 1
    for size, stride in zip(reversed(value.shape), reversed(value.stride()), strict=True):
        if str(stride) != str(due) and size != 1:
            return False
        due = due * size
    return True


def export_again(job: Job, program: torch.export.ExportedProgram, described: Notes) -> torch.export.ExportedProgram:
    """Export a program again with contiguous rows; the sizes and the results remain the same.

    If that fails, the program itself is returned.
    """
    inputs = described["inputs"]
    examples = jobs.make_examples(inputs, jobs.choose_sizes(job, inputs))
    try:
        flat = Flat(models.flatten_program(program))
        return export_dynamic(flat, examples, inputs, bounds=find_bounds(program, inputs))
    except Exception as error:  # noqa: BLE001 - torch raises dozens of classes
        print(f"it is not exported again: {error}")  # noqa: T201 - the step's log
        return program


def export_dynamic(
    flat: Flat, examples: tuple[torch.Tensor, ...], specs: Sequence[Spec], *, bounds: Mapping[str, dict[str, int]]
) -> torch.export.ExportedProgram:
    """Export a flat module, with one ``Dim`` for each named dimension."""
    named = sorted({dim for spec in specs for dim in spec["shape"] if isinstance(dim, str)})
    dims = {name: torch.export.Dim(name, **bounds.get(name, {})) for name in named}
    axes = [{axis: dims[dim] for axis, dim in enumerate(spec["shape"]) if isinstance(dim, str)} for spec in specs]
    count = len(specs) - len(flat.keywords)
    named_examples = dict(zip(flat.keywords, examples[count:], strict=True))
    shapes: Any = (tuple(axes),) if isinstance(flat.model, Flat) else tuple(axes)
    if flat.keywords:
        names = (*[*inspect.signature(flat.model.forward).parameters][:count], *flat.keywords)
        shapes = dict(zip(names, axes, strict=True))
    from torch._dynamo.exc import UserError  # takes a second and a half, and only an export needs it

    with torch.no_grad():
        try:
            return torch.export.export(flat.model, examples[:count], named_examples, dynamic_shapes=shapes)
        except UserError as error:
            found = _read_bounds(str(error))
            if not found or any(found[name] == bounds.get(name) for name in found):
                raise
    return export_dynamic(flat, examples, specs, bounds={**bounds, **found})


def _read_bounds(message: str) -> dict[str, dict[str, int]]:
    """Return the bounds that an export requires, from its message; empty if it requires a fixed size."""
    fixes = message.partition("Suggested fixes:\n")[2].partition("\n\n")[0].splitlines()
    found = [re.fullmatch(r"\s*(\w+) = Dim\('\w+'((?:, (?:min|max)=\d+)+)\)\s*", line) for line in fixes]
    if not all(found):
        return {}
    return {
        fix[1]: {word: int(number) for word, number in re.findall(r"(min|max)=(\d+)", fix[2])} for fix in found if fix
    }


def find_bounds(program: torch.export.ExportedProgram, specs: Sequence[Spec]) -> dict[str, dict[str, int]]:
    """Return the bounds of each named dimension in the program itself, as arguments of ``Dim``."""
    values = {node.name: node.meta.get("val") for node in program.graph.nodes}
    limits = {str(symbol): limit for symbol, limit in program.range_constraints.items()}
    bounds: dict[str, dict[str, int]] = {}
    for name, spec in zip(program.graph_signature.user_inputs, specs, strict=True):
        for size, dim in zip(values[str(name)].shape, spec["shape"], strict=True):
            limit = limits.get(str(size))
            if isinstance(dim, str) and limit is not None:
                bounds[dim] = {"min": int(limit.lower)} if limit.lower > 1 else {}
                if limit.upper.is_Integer:
                    bounds[dim]["max"] = int(limit.upper)
    return bounds
