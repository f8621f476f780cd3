"""Lower an exported program to XNNPACK, for each shape; in int8 with the same ranges for all shapes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import hone_pytorch
import numpy as np
import torch
from executorch.backends.xnnpack.partition.xnnpack_partitioner import XnnpackPartitioner
from executorch.backends.xnnpack.quantizer.xnnpack_quantizer import (
    XNNPACKQuantizer,
    get_symmetric_quantization_config,
)
from executorch.exir import to_edge_transform_and_lower
from torchao.quantization.pt2e.quantize_pt2e import convert_pt2e, prepare_pt2e

from hone_runtime.sessions import compiled, shapes

from . import session

Json = dict[str, Any]
Tensors = tuple[torch.Tensor, ...]

_BATCH = 64  # rows


class _Quantizer(XNNPACKQuantizer):  # type: ignore[misc]  # mypy does not see ExecuTorch
    """XNNPACK's quantizer, except that it leaves integers unchanged.

    The original converts each number that is added or multiplied to a floating-point tensor. Computed indices, such as
    those of a mask, would then be floating point too, and could no longer index.
    """

    def transform_for_annotation(self, model: torch.fx.GraphModule) -> torch.fx.GraphModule:
        """Return the model with tensors in place of numbers in floating-point operations only."""
        whole = {node: node.args for node in model.graph.nodes if _is_whole(node)}
        model = super().transform_for_annotation(model)
        for node, arguments in whole.items():
            node.args = arguments
        model.graph.eliminate_dead_code()
        model.recompile()
        return model


def _is_whole(node: torch.fx.Node) -> bool:
    dtype = getattr(node.meta.get("val"), "dtype", None)
    return dtype is not None and not dtype.is_floating_point


def transform(job: Json) -> Json:
    """Write ``index.json`` and a file for each of the recipe's shapes."""
    pytorch = hone_pytorch
    program, described = pytorch.jobs.read_program(job)
    inputs, outputs = described["inputs"], described["outputs"]
    fit = [shape for shape in job["shapes"] if compiled.fits(inputs, shape["sizes"])]
    if not fit:
        return {"refused": f"the model is fixed to {inputs[0]['shape']}, which is none of the recipe's shapes"}
    flat, quantizes = pytorch.models.flatten_program(program), job["adaptor"] == "executorch.xnnpack-int8"
    model: Any = flat
    if quantizes:
        batches = [*_read_batches(job, inputs)]
        if not batches:
            return {"refused": "there are too few rows of calibration data for one batch"}
        model = _quantize(pytorch, flat, batches)
    for shape in fit:
        examples = pytorch.jobs.make_examples(inputs, shape["sizes"])
        try:
            lowered = _lower(model, examples)
        except Exception as error:  # noqa: BLE001 - torch raises dozens of classes
            failed: Json = pytorch.jobs.fail("convert", f"ExecuTorch cannot lower it for {shape['name']}", error)
            return failed
        compiled.find_file(job["output"], shape, session.ENDING).write_bytes(lowered)
    compiled.write_index(job["output"], {"inputs": inputs, "outputs": outputs})
    notes: Json = {"outputs": outputs, "static_shapes": [shape["name"] for shape in fit]}
    return notes | ({"metadata": {"quantization": "executorch.xnnpack-int8"}} if quantizes else {})


def _quantize(pytorch: Any, flat: Any, batches: list[Tensors]) -> Any:
    """Return a model in int8, of any size: the models for each shape are made from it, and have the same ranges."""
    quantizer = _Quantizer().set_global(get_symmetric_quantization_config(is_per_channel=True))
    prepared = prepare_pt2e(flat.model, quantizer)
    with torch.no_grad():
        for tensors in batches:
            pytorch.models.call(prepared, tensors, flat.keywords)
    return pytorch.models.Flat(convert_pt2e(prepared), flat.keywords)


def _lower(model: Any, examples: Tensors) -> bytes:
    """Return the program's file for the sizes of the examples."""
    with torch.no_grad():
        exported = torch.export.export(model, examples)
        lowered = to_edge_transform_and_lower(exported, partitioner=[XnnpackPartitioner()])
        return bytes(lowered.to_executorch().buffer)


def _read_batches(job: Json, inputs: list[Json]) -> Iterator[Tensors]:
    """Yield calibration rows in batches of the model's fixed size, or of 64; a last batch of one row is dropped."""
    with np.load(job["calibration"]) as arrays:
        rows = [arrays[spec["name"]][: job["options"]["samples"]].astype(spec["dtype"]) for spec in inputs]
    fixed = shapes.find_fixed_batch(spec["shape"] for spec in inputs)
    size, least = (fixed, fixed) if fixed else (_BATCH, 2)
    for start in range(0, len(rows[0]) - least + 1, size):
        yield tuple(torch.from_numpy(np.ascontiguousarray(array[start : start + size])) for array in rows)
