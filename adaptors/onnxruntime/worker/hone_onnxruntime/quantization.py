"""Quantize ONNX graphs: one function for each adaptor."""

from __future__ import annotations

import math
import tempfile
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnxruntime import quantization
from onnxruntime.quantization.matmul_nbits_quantizer import MatMulNBitsQuantizer
from onnxruntime.quantization.quant_utils import get_opset_version

from hone_runtime.sessions import shapes

from . import cached, graphs

Json = dict[str, Any]

QUANTIZED_ALREADY = "the graph is quantized already"
"""The reason to leave a graph as it is."""

_BATCH = 16  # rows of one calibration call if the batch is dynamic


def transform(job: Json) -> Json:
    """Write ``model.onnx`` into the job's output by the job's adaptor, and return notes."""
    tempfile.tempdir = job["temporary"]  # the quantizers write large intermediate models there
    graph = graphs.read_graph(Path(job["input"]["path"]))
    before = graphs.count(graph)
    if all(node.domain not in ("", "ai.onnx") for node in graph.graph.node):
        return {"nothing_to_do": "the graph has no standard operator that could be quantized"}
    del graph  # for a model in one file it contains the weights
    output = Path(job["output"]) / "model.onnx"
    if notes := _TRANSFORMATIONS[job["adaptor"]](job, output):
        return notes
    return count_gained(before, output)


def count_gained(before: Counter[str], output: Path) -> Json:
    """Return the notes on a quantized graph that was written: its new quantized operators.

    Without any the file is removed.

    Args:
        before: The operators of its source, counted.
        output: The path of its ``model.onnx``.
    """
    made = onnx.load(output, load_external_data=False)
    gained, fused = graphs.count(made) - before, graphs.count_fused(made)
    if fresh := {name: gained[name] for name in sorted(gained.keys() & graphs.QUANTIZED)}:
        return {"metadata": {"quantized_operators": fresh, **({"fused_operators": dict(fused)} if fused else {})}}
    for path in output.parent.iterdir():
        path.unlink()
    return {"nothing_to_do": "the quantizer took no operator of this graph"}


def _quantize_dynamic(job: Json, output: Path) -> Json:
    """Quantize the weights of MatMul, Gemm and fused attention to int8; activations are quantized at run time."""
    model = graphs.read(Path(job["input"]["path"]))
    if job["adaptor"] == "onnxruntime.int8-fused":
        from . import fusion  # slow to import

        model = fusion.fuse(job, model)
        if not graphs.ATTENTION & graphs.count_fused(model).keys():
            return {"nothing_to_do": fusion.NO_ATTENTION}
    options, present = job["options"], graphs.count(model)
    operators = ["MatMul", "Gemm"]  # both, since a Gemm is first replaced by MatMul and Add
    if (fused := graphs.count_fused(model)["Attention"]) and fused == present["Attention"]:  # also in ONNX
        operators.append("Attention")
    if not any(present[name] for name in operators):
        return {"nothing_to_do": "the graph has no MatMul or Gemm"}
    large, source = graphs.is_large(model), graphs.stage(model, job)
    del model  # the quantizer has three copies of it in memory
    quantization.quantize_dynamic(
        source,
        output,
        op_types_to_quantize=operators,
        per_channel=options["per_channel"],
        reduce_range=options["reduce_range"],
        weight_type=quantization.QuantType.QInt8,
        nodes_to_exclude=list(options["exclude"]),
        use_external_data_format=large,
        extra_options={"DefaultTensorType": 1},  # float32 if shape inference finds no element type
    )
    return {}


def _quantize_static(job: Json, output: Path) -> Json:
    """Quantize weights and activations to int8 in QDQ form, with ranges from the calibration data."""
    options, model = job["options"], graphs.read(Path(job["input"]["path"]))
    if graphs.count(model).keys() & graphs.QUANTIZED_ACTIVATIONS:
        return {"nothing_to_do": QUANTIZED_ALREADY}
    large, prepared = graphs.is_large(model), Path(job["temporary"]) / "prepared.onnx"
    prepare_static(job, model, prepared)
    del model
    batches, arguments = Batches(job), make_static_arguments(options, large=large)
    try:
        try:
            quantization.quantize_static(str(prepared), str(output), batches, **arguments)
        except ValueError as error:  # its scale adjustment for biases fails for scales with two dimensions
            if "truth value" not in str(error):
                raise
            arguments["extra_options"]["QDQDisableWeightAdjustForInt32Bias"] = True
            quantization.quantize_static(str(prepared), str(output), Batches(job), **arguments)
    except AssertionError as error:  # "scale issue": a range is NaN, for example if every batch contains NaN
        if (refused := explain_missing(error, batches)) is None:
            raise
        return refused
    return {}


def prepare_static(job: Json, model: Any, prepared: Path) -> None:
    """Write a model as the static quantizers need it: optimized, with shapes, and in an opset with scales by channel.

    Args:
        job: The job.
        model: The model; it is changed.
        prepared: The file to write.
    """
    cached.drop_cache(model)  # the quantizer would treat its initial values as weights
    if get_opset_version(model) < 13:  # per-channel scales need it
        model = onnx.version_converter.convert_version(model, 13)
    large = graphs.is_large(model)
    source = str(graphs.stage(model, job))
    try:
        quantization.quant_pre_process(source, str(prepared), auto_merge=True, save_as_external_data=large)
    except Exception as error:  # noqa: BLE001 (it raises a bare Exception if the symbolic inference fails)
        print(f"symbolic shape inference gave up ({error}); going on without it")  # noqa: T201 (the log)
        quantization.quant_pre_process(source, str(prepared), skip_symbolic_shape=True, save_as_external_data=large)


def explain_missing(error: Exception, batches: Batches) -> Json | None:
    """Return the refusal of calibration rows with NaN, if they are the cause of an error; otherwise None."""
    if "scale" not in str(error) or not (missing := batches.find_missing()):
        return None
    return {"refused": f"the calibration rows have NaN in {', '.join(missing)}, so their ranges are unknown"}


def make_static_arguments(options: Json, *, large: bool) -> Json:
    """Return the arguments of ``quantize_static`` for the adaptor's options."""
    types = {"int8": quantization.QuantType.QInt8, "uint8": quantization.QuantType.QUInt8}
    methods = {method.name.lower(): method for method in quantization.CalibrationMethod}
    return {
        "quant_format": quantization.QuantFormat.QDQ,
        "op_types_to_quantize": list(options["operators"]) or None,
        "per_channel": options["per_channel"],
        "reduce_range": options["reduce_range"],
        "activation_type": types[options["activations"]],
        "weight_type": quantization.QuantType.QInt8,
        "nodes_to_exclude": list(options["exclude"]),
        "use_external_data_format": large,
        "calibrate_method": methods[options["calibration"]],
        "calibration_providers": ["CPUExecutionProvider"],
        "extra_options": {"CalibStridedMinMax": 1},  # any method: merge after each batch, so that memory stays bounded
    }


class Batches(quantization.CalibrationDataReader):  # type: ignore[misc]  # it has no types
    """The calibration rows in batches of one size, as the histograms require; filled up with the first rows."""

    def __init__(self, job: Json) -> None:
        specs = job["input"]["inputs"]
        with np.load(job["calibration"], allow_pickle=False) as data:
            self._arrays = {spec["name"]: data[spec["name"]] for spec in specs}
        count, fixed = (
            len(self._arrays[specs[0]["name"]]),
            shapes.find_fixed_batch(spec["shape"] for spec in specs),
        )
        size = fixed or min(_BATCH, count)
        self._batches = np.resize(np.arange(count), (math.ceil(count / size), size))
        self.set_range(0, len(self))

    def __len__(self) -> int:
        return len(self._batches)

    def find_missing(self) -> list[str]:
        """Return the inputs with rows that contain NaN."""
        arrays = self._arrays.items()
        return [name for name, array in arrays if array.dtype.kind == "f" and np.isnan(array).any()]

    def set_range(self, start_index: int, end_index: int) -> None:
        """Restart with these batches."""
        self._left = iter(self._batches[start_index:end_index])

    def get_next(self) -> dict[str, np.ndarray[Any, Any]] | None:
        """Return the next batch; None after the last one."""
        rows = next(self._left, None)
        return None if rows is None else {name: array[rows] for name, array in self._arrays.items()}


def _quantize_weights(job: Json, output: Path) -> Json:
    """Store the weights of MatMul and Gemm in four bits, in blocks; activations are unchanged."""
    options, model = job["options"], graphs.read(Path(job["input"]["path"]))
    split = graphs.split_gemms(model)
    double = {weight.name for weight in model.graph.initializer if weight.data_type == onnx.TensorProto.DOUBLE}
    if any(node.op_type == "MatMul" and node.input[1] in double for node in model.graph.node):
        return {"refused": "its MatMul and Gemm are in float64, and weights of four bits are for fp32 and fp16"}
    quantizer = MatMulNBitsQuantizer(
        model,
        bits=4,
        block_size=options["block_size"],
        is_symmetric=options["symmetric"],
        accuracy_level=options["accuracy_level"],
        nodes_to_exclude=list(options["exclude"]),
    )
    quantizer.process()
    quantizer.model.save_model_to_file(str(output), graphs.is_large(quantizer.model.model))
    print(f"{split} Gemm were written as MatMul and Add")  # noqa: T201 (the log)
    return {}


_TRANSFORMATIONS = {
    "onnxruntime.int8-dynamic": _quantize_dynamic,
    "onnxruntime.int8-fused": _quantize_dynamic,
    "onnxruntime.int8-static": _quantize_static,
    "onnxruntime.int4-weights": _quantize_weights,
}
