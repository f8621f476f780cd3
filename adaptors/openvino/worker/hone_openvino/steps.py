"""Convert, compile and compress: one function for each adaptor."""

from __future__ import annotations

import json
import mmap
import os
import shutil
from pathlib import Path
from typing import Any

import openvino as ov

from hone_runtime.sessions import key_values, shapes

from . import quantization, session

Json = dict[str, Any]


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
    return quantization.finish(model, output, gained, **({"group_size": size} if four else {}))


_STEPS = {
    "openvino.ir": _convert,
    "openvino.f32": _compile,
    "openvino.bf16": _compile,
    "openvino.int8-ptq": quantization.quantize,
    "openvino.int8-accuracy-control": quantization.quantize,
    "openvino.int8-tuned": quantization.quantize,
    "openvino.int8-weights": _compress,
    "openvino.int4-weights": _compress,
}


def _count_weights(model: Any, types: tuple[str, ...]) -> int:
    """Return the number of weights (constants of at least two dimensions) with one of these element types."""
    return sum(
        node.get_type_name() == "Constant"
        and node.get_element_type().get_type_name() in types
        and len(node.get_output_partial_shape(0)) > 1
        and not node.get_friendly_name().endswith("zero_point")
        for node in model.get_ops()
    )
