"""The source of a compressor: a job's program as a trainable module, and the rows that it is trained with."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from hone_pytorch import archive, exports, jobs, models
from torch import fx

from hone_runtime.worker.refusal import UnsuitedError

from . import rows
from .layers import open_trainable

Json = dict[str, Any]
Tensors = tuple[torch.Tensor, ...]
Bounds = Mapping[str, dict[str, int]]
"""The limits of the dynamic sizes, as arguments of ``torch.export.Dim``."""


@dataclass(frozen=True)
class Source:
    """What a compressor starts from.

    Attributes:
        program: The job's program.
        module: The same as ordinary layers, in evaluation mode; a compressor changes a copy.
        described: The specs of its ``inputs`` and ``outputs``.
        examples: One tensor for each input.
        data: The rows of the training.
        options: The adaptor's options.
    """

    program: torch.export.ExportedProgram
    module: fx.GraphModule
    described: Json
    examples: Tensors
    data: rows.Data
    options: Json

    @property
    def bounds(self) -> Bounds:
        """The limits of the program's dynamic sizes."""
        return exports.find_bounds(self.program, self.described["inputs"])

    @property
    def attends(self) -> bool:
        """Whether it has attention."""
        return any("attention" in name or "softmax" in name for name in models.list_operators(self.program))


def open_source(job: Json) -> Source:
    """Return the source of a job.

    Raises:
        UnsuitedError: It is quantized, or cannot be trained with these rows.
    """
    if archive.is_quantized(Path(job["input"]["path"]) / "model.pt2"):
        raise UnsuitedError("the program is quantized: compress first, then quantize", slug="nothing-to-do")
    program, described = jobs.read_program(job)
    inputs = described["inputs"]
    examples = jobs.make_examples(inputs, jobs.choose_sizes(job, inputs))
    module = open_trainable(program, examples)
    data = rows.read_data(job, inputs, described["outputs"])
    return Source(program, module, described, examples, data, job["options"])
