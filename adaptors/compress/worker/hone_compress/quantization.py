"""Quantization-aware training: train a network whose weights and activations are already rounded to int8.

The rounding is simulated, and its gradient is that of the identity (B. Jacob et al., "Quantization and Training of
Neural Networks for Efficient Integer-Arithmetic-Only Inference", CVPR 2018).
"""

from __future__ import annotations

import importlib
from typing import Any

import torch
from torch import fx

from hone_runtime.worker.refusal import UnsuitedError

from . import rows
from .compression import prepare, write_program
from .distillation import distil, read_schedule
from .equalization import equalize
from .progress import print_line
from .source import open_source

Json = dict[str, Any]
_LARGEST_ERROR = 1e-4
"""The largest error of a network without rounding, in units of the outputs' variance."""
_pt2e = "torchao.quantization.pt2e"


def train_quantized(job: Json) -> Json:
    """Write a program that was trained as quantized by PT2E into the job's output, and return notes."""
    prepare(job)
    source = open_source(job)
    student = Prepared(source.program, reduce_range=job["options"]["reduce_range"])
    student.calibrate(source.data)
    schedule = read_schedule(job, attends=source.attends)
    notes = distil(student, source.data, schedule, counts_start=True)  # int8 with equal channels may be good already
    converted = student.convert()
    if not any("quantized_decomposed" in str(node.target) for node in converted.graph.nodes):
        raise UnsuitedError("the quantizer found no operator that it could quantize")
    written = write_program(job, converted, source.examples, source.described, bounds=source.bounds, notes=notes)
    written["metadata"]["quantization"] = "pt2e-x86-int8"
    return written


class Prepared(torch.nn.Module):  # type: ignore[misc]  # torch has no types here
    """A program with PT2E's simulated rounding, which can be trained; the program's own parameters are changed.

    PyTorch's own ``train`` and ``eval`` raise on an exported program: torchao's functions take their place.
    """

    def __init__(self, program: torch.export.ExportedProgram, *, reduce_range: bool) -> None:
        super().__init__()
        x86 = importlib.import_module(f"{_pt2e}.quantizer.x86_inductor_quantizer")
        self._pt2e = importlib.import_module(f"{_pt2e}.quantize_pt2e")
        self._modes = importlib.import_module(_pt2e)
        graph = program.module(check_guards=False)
        graph.graph.set_codegen(fx.graph.CodeGen())
        print_line(f"the channels between {equalize(graph)} pairs of layers are equalized")
        graph.graph.eliminate_dead_code()  # the quantizer fails on a layer whose output nobody uses
        graph.recompile()
        quantizer = x86.X86InductorQuantizer()
        config = x86.get_default_x86_inductor_quantization_config(is_qat=True, reduce_range=reduce_range)
        quantizer.set_global(config)
        self.graph = self._pt2e.prepare_qat_pt2e(graph, quantizer)

    def forward(self, *tensors: torch.Tensor) -> Any:
        """Return the outputs, with simulated rounding."""
        return self.graph(*tensors)

    def train(self, mode: bool = True) -> Prepared:  # noqa: FBT001, FBT002 - the signature of torch
        """Change the mode of the graph's operators; ranges are observed in training only, never on other rows."""
        self.training = mode
        (self._modes.move_exported_model_to_train if mode else self._modes.move_exported_model_to_eval)(self.graph)
        self.graph.apply(self._modes.enable_observer if mode else self._modes.disable_observer)
        return self

    def calibrate(self, data: rows.Data) -> None:
        """Let its observers see the training rows once, after a comparison without rounding.

        Raises:
            UnsuitedError: Without rounding it computes something else than the source, as PT2E does where a
                normalization has another epsilon than it assumes.
        """
        self.eval()
        self.graph.apply(self._modes.disable_fake_quant)
        if not (error := data.measure_error(self)) <= _LARGEST_ERROR:  # also if it is not a number
            raise UnsuitedError(f"PT2E changes what it computes, also without rounding: error {error:.2g}")
        self.graph.apply(self._modes.enable_fake_quant)
        self.graph.apply(self._modes.enable_observer)
        data.observe(self)
        self.eval()

    def convert(self) -> fx.GraphModule:
        """Return the graph with integer weights."""
        self.eval()
        return self._pt2e.convert_pt2e(self.graph)
