"""Quantize a language model's weights to four bits by GPTQ, and write them as integers into a graph of ONNX.

neural-compressor's quantized model unpacks its weights to fp32 in the first call. So the model is converted with the
dequantized weights, and each product with one of them is then replaced by ONNX Runtime's ``MatMulNBits``.
"""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import onnx
import torch
from hone_pytorch import causal_models, jobs, models, steps, traced
from neural_compressor.torch.algorithms.weight_only.modules import INCWeightOnlyLinear
from neural_compressor.torch.quantization import GPTQConfig, convert, prepare
from onnx import helper, numpy_helper

Json = dict[str, Any]
Array = np.ndarray[Any, Any]

_BITS = 4


class Integers(NamedTuple):
    """A layer's weights: integers (outputs, inputs) in 0..15; scales and zero points (outputs, blocks)."""

    values: Array
    scales: Array
    zeros: Array

    def restore(self, block: int) -> Array:
        """Return the weights (outputs, inputs) in fp32."""
        count = self.values.shape[1]
        scales, zeros = (np.repeat(each, block, axis=1)[:, :count] for each in (self.scales, self.zeros))
        restored: Array = (self.values - zeros.astype(np.float32)) * scales
        return restored


def transform(job: Json) -> Json:
    """Write ``model.onnx`` into the job's output, and return notes."""
    if not causal_models.is_language_model(job):
        return {"refused": "neural-compressor's GPTQ is for causal language models, and the model is none"}
    flat, inputs = jobs.open_module(job), job["input"]["inputs"]
    rows = steps.read_batches(job, inputs)
    if not rows:
        return {"refused": "there are too few rows of calibration data for one batch"}
    if any(type(module).__name__ == "Conv1D" for module in flat.model.modules()):
        return {"refused": "neural-compressor's GPTQ fails at layers of the class Conv1D, as GPT-2 has"}
    try:
        layers = _quantize(flat, job, rows)
    except Exception as error:  # noqa: BLE001 - it raises many classes for models that it does not know
        failed: Json = jobs.fail("compress", "neural-compressor's GPTQ does not take the model", error)
        return failed
    flat, known = jobs.open_module(job), {}  # a second copy, since the layers and functions of the first were replaced
    for name, integers in layers.items():
        weight = integers.restore(job["options"]["block_size"])
        flat.model.get_submodule(name).weight.data = torch.from_numpy(weight)
        known[_digest(weight.T)] = integers
    examples = jobs.make_model_examples(job, flat, jobs.choose_sizes(job, inputs))
    notes: Json = traced.write_onnx(flat, examples, job)
    return notes if "failed" in notes else _pack(notes, known, job)


def _quantize(flat: Any, job: Json, rows: list[list[torch.Tensor]]) -> dict[str, Integers]:
    """Return the integers of each layer that GPTQ quantizes, by the layer's name; afterwards the model is unusable.

    Raises:
        ValueError: GPTQ quantizes no layer.
    """
    options = job["options"]
    config = GPTQConfig(
        bits=_BITS, group_size=options["block_size"], use_sym=options["symmetric"], model_path=job["input"]["path"]
    )
    prepared = prepare(flat.model, config)
    with torch.no_grad():
        for tensors in rows:
            models.call(prepared, tensors, flat.keywords)
        made = convert(prepared)
    found = {name: _read(one) for name, one in made.named_modules() if isinstance(one, INCWeightOnlyLinear)}
    if not found:
        raise ValueError("it has no linear layers in a stack of blocks")
    return found


def _read(layer: Any) -> Integers:
    known = layer.unpack()
    values, scales, zeros = (known[name].numpy() for name in ("int_weight", "scales", "zp"))
    return Integers(values.astype(np.uint8), scales.astype(np.float32), zeros.astype(np.uint8))


def _digest(weight: Array) -> bytes:
    return hashlib.sha256(np.ascontiguousarray(weight, np.float32).tobytes()).digest()


def _pack(notes: Json, known: dict[bytes, Integers], job: Json) -> Json:
    """Replace each product with a known quantized weight by ``MatMulNBits``; return the notes with their number."""
    path = Path(job["output"]) / "model.onnx"
    model = onnx.load(path)
    graph, packed = model.graph, set()
    matrices = {one.name: numpy_helper.to_array(one) for one in graph.initializer if len(one.dims) == 2}
    digests = {name: _digest(matrix) for name, matrix in matrices.items()}
    for node in graph.node:
        name = node.input[1] if node.op_type == "MatMul" else ""
        if digests.get(name) in known:
            integers = known[digests[name]]
            if name not in packed:
                graph.initializer.extend(_write(name, integers, job["options"]["block_size"]))
                packed.add(name)
            node.CopyFrom(_multiply(node, integers, job["options"]))
    if len(packed) < len(known):
        reason = f"{len(known) - len(packed)} of {len(known)} quantized weights are not constants of a product"
        return jobs.fail("compress", reason)
    used = {name for node in graph.node for name in node.input}
    kept = [one for one in graph.initializer if one.name in used or one.name not in packed]
    del graph.initializer[:]
    graph.initializer.extend(kept)
    model.opset_import.append(helper.make_opsetid("com.microsoft", 1))
    for old in path.parent.iterdir():
        old.unlink()
    size = sum(len(one.raw_data) for one in graph.initializer)
    outside = "model.onnx.data" if size > steps.LARGEST_ONNX else None
    onnx.save(model, path, save_as_external_data=outside is not None, location=outside)
    metadata = {**notes["metadata"], **steps.note_file(model), "quantized_operators": {"MatMulNBits": len(packed)}}
    return {**notes, "metadata": metadata}


def _multiply(node: Any, integers: Integers, options: Json) -> Any:
    outputs, inputs = integers.values.shape
    return helper.make_node(
        "MatMulNBits",
        [node.input[0], *(f"{node.input[1]}.{part}" for part in ("integers", "scales", "zeros"))],
        [*node.output],
        name=node.name,
        domain="com.microsoft",
        K=inputs,
        N=outputs,
        bits=_BITS,
        block_size=options["block_size"],
        accuracy_level=options["accuracy_level"],
    )


def _write(name: str, integers: Integers, block: int) -> list[Any]:
    """Return the constants of one layer for ``MatMulNBits``: two integers per byte, the first in the low bits."""
    outputs, inputs = integers.values.shape
    blocks = integers.scales.shape[1]
    padded = np.repeat(integers.zeros, block, axis=1)  # padding of the last block dequantizes to 0
    padded[:, :inputs] = integers.values
    zeros = np.zeros((outputs, blocks + blocks % 2), np.uint8)
    zeros[:, :blocks] = integers.zeros
    arrays = {
        "integers": _join(padded).reshape(outputs, blocks, block // 2),
        "scales": integers.scales,
        "zeros": _join(zeros),
    }
    return [numpy_helper.from_array(np.ascontiguousarray(each), f"{name}.{part}") for part, each in arrays.items()]


def _join(values: Array) -> Array:
    joined: Array = values[:, 0::2] | values[:, 1::2] << 4
    return joined
