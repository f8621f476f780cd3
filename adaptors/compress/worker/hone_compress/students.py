"""Distillation: train another, smaller network to return what the source returns."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from hone_pytorch import jobs, models
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
    check_student(student, examples, data)
    attends = any(isinstance(one, nn.MultiheadAttention | nn.LayerNorm) for one in student.modules())
    notes = distil(student, data, read_schedule(job, attends=attends))
    trained = {"class": job["options"]["student"], "parameters": [count_parameters(student)], **notes}
    return write_program(job, student.eval(), examples, {"inputs": inputs, "outputs": outputs}, trained=trained)


def open_student(options: Json, temporary: Path) -> nn.Module:
    """Return the student's class, built with the kwargs of the options."""
    file = temporary / "student.py"
    file.write_text(options["code"], encoding="utf-8")
    code = load_file("hone_student", str(file), parts=False)
    student: nn.Module = getattr(code, options["student"].rpartition(":")[2])(**options["kwargs"])
    return student


def check_student(student: nn.Module, examples: tuple[torch.Tensor, ...], data: rows.Data) -> None:
    """Raise an ``UnsuitedError`` if a student cannot take the source's place."""
    try:
        with torch.no_grad():
            found = call_module(student.eval(), examples)
    except (TypeError, RuntimeError, ValueError) as error:
        why = str(error).splitlines()[0]
        raise UnsuitedError(f"the student does not take the source's inputs: {why}") from error
    if len(found) != len(data.outputs):
        raise UnsuitedError(f"the student has {len(found)} outputs, and the source {len(data.outputs)}")
    if refusal := models.find_refusal(found):
        raise UnsuitedError(refusal)
    for name, one, wanted in zip(data.outputs, found, data.expected, strict=True):
        if one.dtype != wanted.dtype or (one.shape[1:] != wanted.shape[1:] and one.dim() < 3):
            shapes = (
                f"{one.dtype} {tuple(one.shape[1:])} for a row, and the source {wanted.dtype} {tuple(wanted.shape[1:])}"
            )
            raise UnsuitedError(f"the student's {name} is {shapes}")
