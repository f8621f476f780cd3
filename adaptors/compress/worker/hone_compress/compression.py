"""The steps of a compressor: change a network, check that it is faster, train it, and export it again."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

import torch
from hone_pytorch import archive, exports, jobs, models
from torch import fx, nn

from . import rows
from .distillation import distil, read_schedule
from .layers import count_parameters, open_trainable
from .probing import check_gain

Json = dict[str, Any]
Tensors = tuple[torch.Tensor, ...]
Bounds = Mapping[str, dict[str, int]]
"""The limits of the dynamic sizes, as arguments of ``torch.export.Dim``."""
Change = Callable[[fx.GraphModule, rows.Given], fx.GraphModule]
"""Returns a changed copy of a module; raises an ``UnsuitedError`` if it cannot be changed."""


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
    if archive.is_quantized(Path(job["input"]["path"]) / "model.pt2"):
        return {"nothing_to_do": "the program is quantized: compress first, then quantize"}
    prepare(job)
    program, described = jobs.read_program(job)
    inputs = described["inputs"]
    examples = jobs.make_examples(inputs, jobs.choose_sizes(job, inputs))
    source = open_trainable(program, examples)
    data = rows.read_data(job, inputs, described["outputs"])
    changed = change(source, rows.Given(job["options"], data, examples))
    bounds = exports.find_bounds(program, inputs)
    if shrinks and not _goes_on(job):
        check_gain(job, program, export(changed, examples, described, bounds), described)
    notes = distil(changed, data, read_schedule(job, attends=attends(program)), after_step=after_step)
    trained = {"parameters": [count_parameters(source), count_parameters(changed)], **notes}
    return write_program(job, changed.eval(), examples, described, bounds=bounds, trained=trained)


def _goes_on(job: Json) -> bool:
    """Return whether an earlier training goes on, which was worth its time."""
    return bool(job.get("checkpoint")) and Path(job["checkpoint"]).exists()


def attends(program: torch.export.ExportedProgram) -> bool:
    """Return whether a program has attention."""
    return any("attention" in name or "softmax" in name for name in models.list_operators(program))


def prepare(job: Json) -> None:
    """Set the seed and the threads of a job, and let torch compute the same in each run."""
    torch.manual_seed(job["seed"])
    torch.set_num_threads(job["threads"])
    torch.use_deterministic_algorithms(mode=True)


def export(module: nn.Module, examples: Tensors, described: Json, bounds: Bounds) -> torch.export.ExportedProgram:
    """Export a module with the sizes of its source."""
    return exports.export_dynamic(models.Flat(module), examples, described["inputs"], bounds=bounds)


def write_program(
    job: Json,
    module: nn.Module,
    examples: Tensors,
    described: Json,
    *,
    trained: Json,
    bounds: Bounds = MappingProxyType({}),
) -> Json:
    """Export a module with the sizes and names of its source, and return the notes of the step."""
    exported = export(module, examples, described, bounds)
    written = models.describe_program(exported, described)
    models.save_program(exported, Path(job["output"]), written)
    return {"outputs": written["outputs"], "metadata": {"training": trained}}
