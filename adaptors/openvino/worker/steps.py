"""Convert, compile and compress: one function for each adaptor."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

from . import data, graphs, session

Job = dict[str, Any]
Notes = dict[str, Any]


def _convert(job: Job, source: Path, output: Path) -> Notes:
    """Convert ONNX to IR, keep the weights in their own precision, and keep the names that OpenVINO drops."""
    with session.without_telemetry():
        model = session.import_quietly("openvino").convert_model(source / "model.onnx")
    specs = (*job["input"]["inputs"], *job["input"]["outputs"])
    for port, spec in zip((*model.inputs, *model.outputs), specs, strict=True):
        if spec["name"] not in port.get_names():
            return {"failed": {"class": "convert", "reason": f"tensor {spec['name']!r} is not in the converted model"}}
        port.get_tensor().set_names({spec["name"]})
    model.set_rt_info(json.dumps({spec["name"]: spec["shape"] for spec in specs}), graphs.DIMENSIONS)
    _save(model, output)
    return {}


def _compile(job: Job, source: Path, output: Path) -> Notes:
    """Copy the files, and check that this CPU supports the precision that the adaptor is named after."""
    session.open_session(job, {"INFERENCE_PRECISION_HINT": job["adaptor"].removeprefix("openvino.")})
    for name in ("model.xml", "model.bin"):
        shutil.copyfile(source / name, output / name)
    return {}


def _quantize(job: Job, source: Path, output: Path) -> Notes:
    """Quantize weights and activations to int8 with ranges from the calibration data.

    With accuracy control, layers are reverted until the program's metric is within the limit.
    """
    nncf, options = session.import_quietly("nncf"), job["options"]
    model = session.read(source)
    if _count_quantizers(model):
        return {"nothing_to_do": "the graph is quantized already"}
    rows = data.Rows(job["calibration"], job["input"]["inputs"])
    batches = rows.batches()
    transformer = graphs.has_attention(model) if options["transformer"] is None else options["transformer"]
    # Seven bits for all weights, or NNCF's own default: for those of the first convolutions.
    fix = nncf.OverflowFix.ENABLE if options["reduce_range"] else nncf.OverflowFix.FIRST_LAYER
    advanced = nncf.AdvancedQuantizationParameters(overflow_fix=fix)
    arguments = {
        "preset": nncf.QuantizationPreset(options["preset"]) if options["preset"] else None,
        "model_type": nncf.ModelType.TRANSFORMER if transformer else None,
        "subset_size": min(-(-options["subset_size"] // rows.batch), len(batches)),
        "fast_bias_correction": options["fast_bias_correction"],
        "ignored_scope": _ignore(nncf, options),
    }
    if job["adaptor"] == "openvino.int8-ptq":
        quantized = nncf.quantize(model, nncf.Dataset(batches), advanced_parameters=advanced, **arguments)
        return _finish(quantized, output, _count_quantizers(quantized))
    validation = data.Validation(job)
    quantized = nncf.quantize_with_accuracy_control(
        model,
        calibration_dataset=nncf.Dataset(batches),
        validation_dataset=nncf.Dataset(range(len(validation.rows)), validation.rows.take_one),
        validation_fn=validation.measure,
        max_drop=options["max_drop"],
        advanced_quantization_parameters=advanced,
        **arguments,
    )
    return _finish(quantized, output, _count_quantizers(quantized), metric=validation.name)


def _ignore(nncf: Any, options: dict[str, Any]) -> Any:
    """Return NNCF's scope of nodes to leave alone; names that do not exist are an error, as by default in NNCF."""
    return nncf.IgnoredScope(names=list(options["exclude"])) if options["exclude"] else None


def _compress_int8(job: Job, source: Path, output: Path) -> Notes:
    """Store weights in eight bits and keep the activations."""
    nncf, options = session.import_quietly("nncf"), job["options"]
    model = session.read(source)
    before = _count_weights(model, "i8", "u8")
    mode = nncf.CompressWeightsMode.INT8_SYM if options["symmetric"] else nncf.CompressWeightsMode.INT8_ASYM
    model = nncf.compress_weights(model, mode=mode, ignored_scope=_ignore(nncf, options))
    return _finish(model, output, _count_weights(model, "i8", "u8") - before)


def _compress_int4(job: Job, source: Path, output: Path) -> Notes:
    """Store weights in four bits, in groups, smaller where a layer asks for it; one a channel where none fits."""
    nncf, options = session.import_quietly("nncf"), job["options"]
    smaller = nncf.AdvancedCompressionParameters(group_size_fallback_mode=nncf.GroupSizeFallbackMode.ADJUST)
    for group_size in dict.fromkeys((options["group_size"], -1)):
        model = session.read(source)
        before = _count_weights(model, "i4", "u4")
        model = nncf.compress_weights(
            model,
            mode=nncf.CompressWeightsMode.INT4_SYM if options["symmetric"] else nncf.CompressWeightsMode.INT4_ASYM,
            ratio=options["ratio"],
            group_size=group_size,
            all_layers=options["all_layers"],
            advanced_parameters=smaller,
            ignored_scope=_ignore(nncf, options),
        )
        gained = _count_weights(model, "i4", "u4") - before
        if gained:
            break
    return _finish(model, output, gained, group_size=group_size)


STEPS = {
    "openvino.ir": _convert,
    "openvino.f32": _compile,
    "openvino.bf16": _compile,
    "openvino.int8-ptq": _quantize,
    "openvino.int8-accuracy-control": _quantize,
    "openvino.int8-weights": _compress_int8,
    "openvino.int4-weights": _compress_int4,
}


def _finish(model: Any, output: Path, gained: int, **metadata: Any) -> Notes:
    if gained <= 0:
        return {"nothing_to_do": "the quantizer took no operator of this graph"}
    _save(model, output)
    return {"metadata": {"quantized_operators": gained, **metadata}}


def _save(model: Any, output: Path) -> None:
    """Write the IR with weights as they are; by default OpenVINO would store them as fp16."""
    session.import_quietly("openvino").save_model(model, output / "model.xml", compress_to_fp16=False)


def _count_quantizers(model: Any) -> int:
    return sum(node.get_type_name() == "FakeQuantize" for node in model.get_ops())


def _count_weights(model: Any, *types: str) -> int:
    """Return how many weights (constants of at least two dimensions) have one of these element types."""
    constants = (node for node in model.get_ops() if node.get_type_name() == "Constant")
    return sum(
        node.get_element_type().get_type_name() in types
        and len(node.get_output_partial_shape(0)) > 1
        and not node.get_friendly_name().endswith("zero_point")
        for node in constants
    )
