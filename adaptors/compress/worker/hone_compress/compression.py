"""The steps of a compressor: change a network, check that it is faster, train it, and export it again."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import MappingProxyType
from typing import Any

import torch
from hone_pytorch import exports, models
from torch import fx, nn

from .distillation import distil, read_schedule
from .layers import count_parameters
from .probing import check_gain
from .source import Bounds, Source, Tensors, open_source

Json = dict[str, Any]
Change = Callable[[Source], fx.GraphModule]
"""Returns a changed copy of a source's module; raises an ``UnsuitedError`` if it cannot be changed."""


def compress(
    job: Json, change: Change, *, shrinks: bool = True, after_step: Callable[[float], None] | None = None
) -> Json:
    """Write a program that was changed and trained into the job's output, and return notes.

    Args:
        job: The job of the host.
        change: What is changed.
        shrinks: Whether the change itself makes the network faster: then it is refused, before it is trained, if it
            is not faster here.
        after_step: As in ``distil``.
    """
    prepare(job)
    source = open_source(job)
    changed = change(source)
    if shrinks and not _goes_on(job):
        exported = _export(changed, source.examples, source.described, source.bounds)
        check_gain(job, source.program, exported, source.described)
    notes = distil(changed, source.data, read_schedule(job, attends=source.attends), after_step=after_step)
    notes = {"parameters": [count_parameters(source.module), count_parameters(changed)], **notes}
    return write_program(job, changed.eval(), source.examples, source.described, bounds=source.bounds, notes=notes)


def _goes_on(job: Json) -> bool:
    """Return whether an earlier training goes on, which was worth its time."""
    return bool(job.get("checkpoint")) and Path(job["checkpoint"]).exists()


def prepare(job: Json) -> None:
    """Set the seed and the threads of a job, and let torch compute the same in each run."""
    torch.manual_seed(job["seed"])
    torch.set_num_threads(job["threads"])
    torch.use_deterministic_algorithms(mode=True)


def _export(module: nn.Module, examples: Tensors, described: Json, bounds: Bounds) -> torch.export.ExportedProgram:
    return exports.export_dynamic(models.Flat(module), examples, described["inputs"], bounds=bounds)


def write_program(
    job: Json,
    module: nn.Module,
    examples: Tensors,
    described: Json,
    *,
    notes: Json,
    bounds: Bounds = MappingProxyType({}),
) -> Json:
    """Export a module with the sizes and names of its source, and return the notes of the step.

    Args:
        job: The job of the host.
        module: The module, in evaluation mode.
        examples: One tensor for each input.
        described: The specs of the source.
        notes: The notes of the training.
        bounds: The limits of the dynamic sizes.
    """
    exported = _export(module, examples, described, bounds)
    written = models.describe_program(exported, described)
    models.save_program(exported, Path(job["output"]), written)
    return {"outputs": written["outputs"], "metadata": {"training": notes}}
