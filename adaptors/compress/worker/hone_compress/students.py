"""Distillation: train another, smaller network to return what the source returns."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from hone_pytorch import jobs
from torch import nn

from hone_runtime.worker.imports import load_file
from hone_runtime.worker.refusal import UnsuitedError

from . import rows
from .compression import prepare, write_program
from .distillation import distil, read_schedule
from .layers import call_module, count_parameters

Json = dict[str, Any]


def train_student(job: Json) -> Json:
    """Write a student that was trained on the source's outputs into the job's output, and return notes."""
    if "module" not in job["trust"]:
        raise UnsuitedError("a student is a class, which is code: it runs only when the recipe says 'trust: [module]'")
    prepare(job)
    inputs, outputs = job["input"]["inputs"], job["input"]["outputs"]
    examples = jobs.make_examples(inputs, jobs.choose_sizes(job, inputs))
    data = rows.read_data(job, inputs, outputs)
    student = open_student(job["options"], Path(job["temporary"]))
    check_student(student, examples, outputs)
    attends = any(isinstance(one, nn.MultiheadAttention | nn.LayerNorm) for one in student.modules())
    notes = distil(student, data, read_schedule(job, attends=attends))
    notes = {
        "class": job["options"]["student"].rpartition("/")[2],
        "parameters": [count_parameters(student)],
        **notes,
    }
    return write_program(job, student.eval(), examples, {"inputs": inputs, "outputs": outputs}, notes=notes)


def open_student(options: Json, temporary: Path) -> nn.Module:
    """Return the student's class, built with the kwargs of the options.

    Raises:
        UnsuitedError: It cannot be built, or is no module.
    """
    file, name = temporary / "student.py", options["student"].rpartition(":")[2]
    file.write_text(options["code"], encoding="utf-8")
    try:
        student = getattr(load_file("hone_student", str(file), parts=False), name)(**options["kwargs"])
    except Exception as error:  # a person's code may raise anything
        raise UnsuitedError(f"the student {name} cannot be built: {type(error).__name__}: {error}") from error
    if not isinstance(student, nn.Module):
        raise UnsuitedError(f"the student {name} is a {type(student).__name__}, and no module")
    return student


def check_student(student: nn.Module, examples: tuple[torch.Tensor, ...], outputs: Sequence[Json]) -> None:
    """Raise an ``UnsuitedError`` if a student cannot take the source's place.

    Args:
        student: The student.
        examples: One tensor for each input.
        outputs: The source's outputs; a size with a name may be any.
    """
    try:
        with torch.no_grad():
            found = call_module(student.eval(), examples)
    except (TypeError, RuntimeError, ValueError) as error:
        why = str(error).splitlines()[0]
        raise UnsuitedError(f"the student does not take the source's inputs: {why}") from error
    if len(found) != len(outputs):
        raise UnsuitedError(f"the student has {len(found)} outputs, and the source {len(outputs)}")
    for one, spec in zip(found, outputs, strict=True):
        sizes = [dim if isinstance(dim, str) else size for dim, size in zip(spec["shape"], one.shape, strict=False)]
        dtype = str(one.dtype).removeprefix("torch.")
        if dtype != spec["dtype"] or len(spec["shape"]) != one.dim() or sizes != list(spec["shape"]):
            due = f"{spec['dtype']} {spec['shape']}"
            raise UnsuitedError(f"the student's {spec['name']} is {dtype} {[*one.shape]}, and the source's {due}")
