"""Convert, compile and compress: one function for each adaptor."""

from __future__ import annotations

import importlib
import json
import mmap
import os
import shutil
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import openvino as ov

from hone_runtime.sessions import key_values, shapes
from hone_runtime.worker.imports import load_program

from . import session

Json = dict[str, Any]

_REACH = 4  # the most operators (casts, masks, views) between an attention's softmax and its matrix product


def transform(job: Json) -> Json:
    """Write ``model.xml`` and ``model.bin`` into the job's output by the job's adaptor, and return notes."""
    os.environ.update(CI="true", NNCF_CI="true")  # no telemetry: see session; each step has its own process
    return _STEPS[job["adaptor"]](job, Path(job["output"]))


def _convert(job: Json, output: Path) -> Json:
    """Convert ONNX to IR with the weights in their own precision, and store the names that OpenVINO drops."""
    source = Path(job["input"]["path"], "model.onnx")
    with source.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content:
        if content.find(b"_ORT_MEM_ADDR_") >= 0 or content[:1] == b"<":
            raise ValueError("model.onnx is not ONNX, or its external data is an address in memory and no file")
    model = ov.convert_model(source)
    specs = (*job["input"]["inputs"], *job["input"]["outputs"])
    for port, spec in zip((*model.inputs, *model.outputs), specs, strict=True):
        if spec["name"] not in port.get_names():
            return {"failed": {"class": "convert", "reason": f"tensor {spec['name']!r} is not in the converted model"}}
        port.get_tensor().set_names({spec["name"]})
    model.set_rt_info(json.dumps({spec["name"]: spec["shape"] for spec in specs}), session.DIMENSIONS)
    ov.save_model(model, output / "model.xml", compress_to_fp16=False)  # the default is fp16
    return {}


def _compile(job: Json, output: Path) -> Json:
    """Copy the files, check that this CPU computes in the adaptor's precision, and note the shapes to compile for."""
    hint = {"INFERENCE_PRECISION_HINT": job["adaptor"].removeprefix("openvino.")}
    hinted = {**job, "input": {**job["input"], "run_options": hint}}
    opened = session.open_session(hinted)
    for name in ("model.xml", "model.bin"):
        shutil.copyfile(Path(job["input"]["path"], name), output / name)
    fault = _find_fault(opened, job["input"].get("metadata", {}).get("transformers", {})) if opened.has_cache else None
    cache = {"cache": {"absent": fault}} if fault else {}
    weights = session.count_bytes(str(output))
    fixed = [] if opened.has_cache else shapes.choose_shapes(hinted, session.open_session, weights=weights)
    noted = {**cache, **({shapes.SHAPES: fixed} if fixed else {})}
    return {"metadata": noted} if noted else {}


def _find_fault(opened: session.Session, source: Json) -> str | None:
    """Return how the logits of steps that use the cache differ from a single run's on this machine; None if equal."""
    words, limit = source.get("config", {}).get("vocab_size") or 2, source.get("limits", {}).get("length", 0)
    feeds = key_values.make_rows(words, limit)
    del feeds[key_values.POSITIONS]  # the source may have no such input
    wanted = opened.run(feeds)["logits"]
    fault: str | None = key_values.find_fault(opened.start, feeds, wanted, whose="those of one run", rounds=True)
    return fault


def _quantize(job: Json, output: Path) -> Json:
    """Quantize, or refuse a model in float64, or one whose operators are where NNCF finds no ranges."""
    import nncf

    try:
        return _quantize_seen(job, output)
    except nncf.ValidationError as error:
        if (unseen := _explain_unseen(session.read(job["input"]["path"]), error)) is None:
            raise
        return {"refused": unseen}
    except RuntimeError as error:  # accuracy control runs the partly quantized model
        if "does not support f64" not in str(error):
            raise
        return {"refused": "it computes in float64, in which OpenVINO runs no quantized operators"}


def _quantize_seen(job: Json, output: Path) -> Json:
    """Quantize weights and activations to int8; with accuracy control, revert layers until the metric allows it."""
    import nncf

    options, model = job["options"], session.read(job["input"]["path"])
    if _count_quantizers(model):
        return {"nothing_to_do": "the graph is quantized already"}
    inputs = job["input"]["inputs"]
    fixed, name = shapes.find_fixed_batch(spec["shape"] for spec in inputs), inputs[0]["name"]
    size = fixed or 1
    rows = _read_rows(job["calibration"], inputs)
    stateful = bool(model.get_sinks())  # its runs add inputs of their own
    own = {session.find_name(port) for port in model.inputs} if stateful else set()
    batches = [session.fill(part, own) for part in _split(rows, range(len(rows[name])), size)]
    transformer = _has_attention(model) if options["transformer"] is None else options["transformer"]
    # Seven bits for all weights, or NNCF's default: seven bits for the first convolutions.
    fix = nncf.OverflowFix.ENABLE if options["reduce_range"] else nncf.OverflowFix.FIRST_LAYER
    advanced = nncf.AdvancedQuantizationParameters(overflow_fix=fix)
    if options["smooth_quant"] is not None:
        advanced.smooth_quant_alphas = nncf.AdvancedSmoothQuantParameters(matmul=options["smooth_quant"])
    arguments = {
        "preset": nncf.QuantizationPreset(options["preset"]) if options["preset"] else None,
        "model_type": nncf.ModelType.TRANSFORMER if transformer else None,
        "subset_size": min(-(-options["subset_size"] // size), len(batches)),
        "fast_bias_correction": options["fast_bias_correction"],
        # Names that do not exist are an error, as is NNCF's default.
        "ignored_scope": nncf.IgnoredScope(names=options["exclude"]) if options["exclude"] else None,
    }
    if job["adaptor"] == "openvino.int8-ptq":
        quantized = nncf.quantize(model, nncf.Dataset(batches), advanced_parameters=advanced, **arguments)
        return _finish(quantized, output, _count_quantizers(quantized))
    kept = _read_rows(job["program"]["feeds"], inputs)
    metric, measure = _open_metric(job, model, kept, size=fixed or 64)
    quantized = nncf.quantize_with_accuracy_control(
        model,
        calibration_dataset=nncf.Dataset(batches),
        validation_dataset=nncf.Dataset(
            range(len(kept[name])), lambda row: session.fill(_split(kept, [row], size)[0], own)
        ),
        validation_fn=measure,
        max_drop=options["max_drop"],
        advanced_quantization_parameters=advanced,
        **arguments,
    )
    return _finish(quantized, output, _count_quantizers(quantized), metric=metric)


def _explain_unseen(model: Any, error: Exception) -> str | None:
    """Return why NNCF finds no calibration rows though there are some: it skips operators in a subgraph body."""
    kinds = sorted({node.get_type_name() for node in model.get_ops()} & {"If", "Loop", "TensorIterator"})
    if "must not be empty" not in str(error) or not kinds:
        return None
    return f"the model has operators inside {' and '.join(kinds)}, and NNCF reads their ranges from no calibration row"


def _has_attention(model: Any) -> bool:
    """Return whether a graph has attention: its operator, or a softmax whose result enters a matrix product."""
    return any(
        kind == "ScaledDotProductAttention" or (kind == "Softmax" and _feeds(node, _REACH))
        for kind, node in ((node.get_type_name(), node) for node in model.get_ops())
    )


def _feeds(node: Any, reach: int) -> bool:
    """Return whether a node's output enters a matrix product, directly or through a few other nodes."""
    readers = [port.get_node() for output in node.outputs() for port in output.get_target_inputs()]
    return any(each.get_type_name() == "MatMul" or (reach > 1 and _feeds(each, reach - 1)) for each in readers)


def _compress(job: Json, output: Path) -> Json:
    """Store weights in eight bits, or in four bits in groups; activations are unchanged."""
    import nncf

    options, four = job["options"], job["adaptor"] == "openvino.int4-weights"
    types = ("i4", "u4") if four else ("i8", "u8")
    sizes = dict.fromkeys((options["group_size"], -1)) if four else (None,)  # whole channels if no layer can be divided
    arguments = {
        "ignored_scope": nncf.IgnoredScope(names=options["exclude"]) if options["exclude"] else None,
        "mode": nncf.CompressWeightsMode[f"INT{4 if four else 8}_{'SYM' if options['symmetric'] else 'ASYM'}"],
    }
    if four:
        fallback = nncf.AdvancedCompressionParameters(group_size_fallback_mode=nncf.GroupSizeFallbackMode.ADJUST)
        arguments |= {"ratio": options["ratio"], "all_layers": options["all_layers"], "advanced_parameters": fallback}
    for size in sizes:
        model = session.read(job["input"]["path"])
        before = _count_weights(model, types)
        model = nncf.compress_weights(model, group_size=size, **arguments)
        if gained := _count_weights(model, types) - before:
            break
    return _finish(model, output, gained, **({"group_size": size} if four else {}))


_STEPS = {
    "openvino.ir": _convert,
    "openvino.f32": _compile,
    "openvino.bf16": _compile,
    "openvino.int8-ptq": _quantize,
    "openvino.int8-accuracy-control": _quantize,
    "openvino.int8-weights": _compress,
    "openvino.int4-weights": _compress,
}


def _finish(model: Any, output: Path, gained: int, **metadata: Any) -> Json:
    if gained <= 0:
        return {"nothing_to_do": "the quantizer took no operator of this graph"}
    ov.save_model(model, output / "model.xml", compress_to_fp16=False)
    return {"metadata": {"quantized_operators": gained, **metadata}}


def _count_quantizers(model: Any) -> int:
    return sum(node.get_type_name() == "FakeQuantize" for node in model.get_ops())


def _count_weights(model: Any, types: tuple[str, ...]) -> int:
    """Return the number of weights (constants of at least two dimensions) with one of these element types."""
    return sum(
        node.get_type_name() == "Constant"
        and node.get_element_type().get_type_name() in types
        and len(node.get_output_partial_shape(0)) > 1
        and not node.get_friendly_name().endswith("zero_point")
        for node in model.get_ops()
    )


def _read_rows(path: str, inputs: Sequence[Json]) -> session.Arrays:
    with np.load(path, allow_pickle=False) as data:
        return {spec["name"]: data[spec["name"]] for spec in inputs}


def _split(arrays: session.Arrays, rows: Sequence[int], size: int) -> list[session.Arrays]:
    """Return these rows of each array in calls of one size; the last call is filled up with the first rows."""
    parts = np.resize(rows, (-(-len(rows) // size), size))
    return [{name: array[part] for name, array in arrays.items()} for part in parts]


def _open_metric(job: Json, model: Any, feeds: session.Arrays, *, size: int) -> tuple[str, Callable[..., Any]]:
    """Return the name of the program's metric, and the metric in NNCF's form: higher is better."""
    row = job["program"]
    program = load_program(row["path"], row["library"])
    options = {**getattr(program, "OPTIONS", {}), **row["options"]}
    sign = 1.0 if getattr(program, "HIGHER_IS_BETTER", True) else -1.0
    shared = importlib.import_module("hone_programs.shared.targets")
    with np.load(row["targets"], allow_pickle=False) as prepared:
        targets = dict(prepared)
    if not getattr(program, "NEEDS_TARGETS", True):
        with np.load(row["source"], allow_pickle=False) as outputs:
            targets = shared.merge_targets(program, targets, outputs)

    def measure(compiled: Any, rows: Iterable[int]) -> tuple[float, list[Any]]:
        """Return the metric over these rows, and NNCF's values for comparing rows: scores, or else outputs.

        A metric such as the area under a curve has no value for one row.
        """
        chosen, opened = list(rows), session.Session(compiled, model)
        parts = [opened.run(part) for part in _split(feeds, chosen, size)]
        outputs = {name: np.concatenate([part[name] for part in parts])[: len(chosen)] for name in row["outputs"]}
        judged = program.decode(outputs, options), shared.take_rows(targets, chosen), options
        value, scores = sign * float(program.metric(*judged)), program.score(*judged)
        if scores is None:
            return value, [[outputs[name][each] for name in row["outputs"]] for each in range(len(chosen))]
        return value, [float(score) for score in scores]

    return str(getattr(program, "METRIC", "metric")), measure
