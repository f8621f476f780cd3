"""Convert and compress: one function for each adaptor."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch

from hone_runtime.sessions import shapes

from . import archive, arguments, causal_models, exports, jobs, models
from .models import Flat, Job, Notes, Spec

_CALIBRATION_BATCH = 64
LARGEST_ONNX = 1_900_000_000  # protobuf's limit is 2 GiB, and the graph needs a part of it

Quantize = Callable[[torch.nn.Module, Callable[[torch.nn.Module], None], Notes], Any]
"""Converts an exported program's module into a quantized one; see :func:`write_quantized`."""


def export(job: Job) -> Notes:
    """Export the author's class with its dynamic dimensions (``torch.export``)."""
    flat, inputs = jobs.open_module(job), job["input"]["inputs"]
    examples = jobs.make_model_examples(job, flat, jobs.choose_sizes(job, inputs))
    with torch.no_grad():
        result = flat.call(*examples)
    absent = isinstance(result, dict) and None in result.values()  # an exported program would return it too
    # Otherwise the class's own module would be needed to load the program.
    plain = not absent and type(result) in (torch.Tensor, tuple, list, dict)
    try:
        bounds = {name: {"max": limit} for name, limit in jobs.find_limits(job).items()}
        program = exports.export_dynamic(flat if plain else Flat(flat), examples, inputs, bounds=bounds)
    except Exception as error:  # noqa: BLE001 - torch raises dozens of classes; only the reason is used
        branches = "data-dependent" in str(error)
        reason = "its code branches on the values of its inputs" if branches else "it cannot keep the sizes dynamic"
        return jobs.fail("convert", f"torch.export cannot trace the model, since {reason}", error)
    described = models.describe_program(program, job["input"])
    models.save_program(program, Path(job["output"]), described)
    return described


def to_onnx(job: Job) -> Notes:
    """Write an exported program as ONNX with the dynamo exporter; a PT2E program becomes a QDQ model."""
    import onnx

    program, described = jobs.read_program(job)
    target = Path(job["output"]) / "model.onnx"
    if not exports.has_plain_rows(program) or arguments.returns_none(program):
        program = exports.export_again(job, program, described)
    try:
        write_onnx(program, target, described, opset=job["options"]["opset"])
    except Exception:  # a decomposition in torch may fail for the result of torch's own export
        again = exports.export_again(job, program, described)
        if again is program:
            raise
        write_onnx(again, target, described, opset=job["options"]["opset"])
    model = onnx.load(target, load_external_data=False)
    clean_onnx(model, described)
    onnx.save(model, target)
    metadata = note_file(model)
    if causal_models.is_language_model(job):
        metadata["cache"] = {"absent": "an exported program has none; pytorch.onnx-traced writes a graph with one"}
    return {"outputs": described["outputs"], "metadata": metadata}


def write_onnx(program: torch.export.ExportedProgram, target: Path, described: Notes, *, opset: int) -> None:
    """Write a program as ONNX, with the names of its specs."""
    size = sum(value.numel() * value.element_size() for value in program.state_dict.values())
    with torch.no_grad():  # as exported: with gradients, attention is decomposed into another layout
        torch.onnx.export(
            program,
            f=target,
            dynamo=True,
            input_names=[spec["name"] for spec in described["inputs"]],
            output_names=[spec["name"] for spec in described["outputs"]],
            opset_version=opset,
            external_data=size > LARGEST_ONNX,
            verbose=False,
        )


def note_file(model: Any) -> Notes:
    """Return a graph's opset (the requested one is not always used), IR version, domains and operators."""
    written = {entry.domain or "ai.onnx": entry.version for entry in model.opset_import}
    own = {function.domain for function in model.functions}
    pending = [*model.graph.node, *(node for function in model.functions for node in function.node)]
    found = set()
    while pending:
        node = pending.pop()
        found.add((node.domain or "ai.onnx", node.op_type))
        pending += [
            inner for attribute in node.attribute for graph in (attribute.g, *attribute.graphs) for inner in graph.node
        ]
    return {
        "opset": written["ai.onnx"],
        "ir_version": model.ir_version,
        "domains": sorted({domain for domain, _ in found} - own),
        "operators": sorted({name for _, name in found}),
    }


def clean_onnx(model: Any, described: Notes) -> None:
    """Name dynamic dimensions as in the specs; remove the author's paths, and shapes that break ORT's quantizers."""
    values = [*model.graph.input, *model.graph.output]
    for value, spec in zip(values, [*described["inputs"], *described["outputs"]], strict=True):
        for dim, name in zip(value.type.tensor_type.shape.dim, spec["shape"], strict=True):
            if isinstance(name, str):
                dim.dim_param = name
    del model.graph.value_info[:]
    for item in [model, model.graph, *values, *model.graph.node, *model.graph.initializer, *model.functions]:
        del item.metadata_props[:]
        item.doc_string = ""


def save_onnx(model: Any, module: torch.nn.Module, job: Job) -> None:
    """Save a graph into the job's output; weights are in a separate file if protobuf's limit requires it."""
    import onnx

    size = sum(value.numel() * value.element_size() for value in module.state_dict().values())
    outside = "model.onnx.data" if size > LARGEST_ONNX else None
    path = Path(job["output"]) / "model.onnx"
    onnx.save(model, path, save_as_external_data=outside is not None, location=outside)


def list_dynamic(spec: Spec) -> dict[int, str]:
    """Return the names of a tensor's dynamic sizes, by axis."""
    return {axis: dim for axis, dim in enumerate(spec["shape"]) if isinstance(dim, str)}


def quantize(job: Job) -> Notes:
    """Quantize an exported program to int8 with PT2E and the quantizer of Inductor's x86 kernels."""
    return write_quantized(job, _quantize_for_x86, scheme="pt2e-x86-int8")


def _quantize_for_x86(model: torch.nn.Module, calibrate: Callable[[torch.nn.Module], None], options: Notes) -> Any:
    pt2e = importlib.import_module("torchao.quantization.pt2e.quantize_pt2e")
    x86 = importlib.import_module("torchao.quantization.pt2e.quantizer.x86_inductor_quantizer")
    quantizer = x86.X86InductorQuantizer()
    quantizer.set_global(x86.get_default_x86_inductor_quantization_config(reduce_range=options["reduce_range"]))
    prepared = pt2e.prepare_pt2e(model, quantizer)
    calibrate(prepared)
    return pt2e.convert_pt2e(prepared)


def write_quantized(job: Job, quantize: Quantize, *, scheme: str) -> Notes:
    """Write an exported program that is quantized by a function of PT2E, with the original sizes and names.

    The function gets the program's module, a function that runs a prepared module on the calibration rows, and the
    options. ``scheme`` describes the result in the metadata.
    """
    path = Path(job["input"]["path"]) / "model.pt2"
    if archive.is_quantized(path):
        return {"nothing_to_do": "the program is quantized already"}
    program, described = jobs.read_program(job)
    flat, inputs = models.flatten_program(program), described["inputs"]
    batches = read_batches(job, inputs)
    if not batches:
        return {"refused": "there are too few rows of calibration data for one batch"}

    def calibrate(prepared: torch.nn.Module) -> None:
        with torch.no_grad():
            for tensors in batches:
                models.call(prepared, tensors, flat.keywords)

    converted = quantize(flat.model, calibrate, job["options"])
    if not any("quantized_decomposed" in str(node.target) for node in converted.graph.nodes):
        return {"refused": "the quantizer found no operator that it could quantize"}
    examples = jobs.make_examples(inputs, jobs.choose_sizes(job, inputs))
    bounds = exports.find_bounds(program, inputs)
    quantized = exports.export_dynamic(Flat(converted, flat.keywords), examples, inputs, bounds=bounds)
    models.save_program(quantized, Path(job["output"]), described)
    return {"outputs": described["outputs"], "metadata": {"quantization": scheme}}


def read_batches(job: Job, specs: Sequence[Spec]) -> list[list[torch.Tensor]]:
    """Return calibration rows in batches of the model's fixed size, or of 64; a last batch of one row is dropped."""
    rows = np.load(job["calibration"])
    count = min(len(rows[specs[0]["name"]]), job["options"]["samples"])
    fixed = shapes.find_fixed_batch(spec["shape"] for spec in specs)
    size, least = (fixed, fixed) if fixed else (_CALIBRATION_BATCH, 2)
    return [
        [torch.from_numpy(rows[spec["name"]][start : min(start + size, count)].astype(spec["dtype"])) for spec in specs]
        for start in range(0, count - least + 1, size)
    ]
