"""PyTorch: export, quantize, compile and run models."""

from __future__ import annotations

from typing import Any

from . import compilers, jobs, lora, scripted, session, steps, traced

describe, load, merge = jobs.describe, session.open_session, lora.merge

_STEPS = {
    "pytorch.export": steps.export,
    "pytorch.onnx": steps.to_onnx,
    "pytorch.onnx-scripted": scripted.to_onnx,
    "pytorch.onnx-traced": traced.to_onnx,
    "pytorch.openvino-ir": traced.to_openvino,
    "pytorch.pt2e-int8": steps.quantize,
    "pytorch.trace": compilers.trace,
    "pytorch.torchscript": compilers.trace,
    "pytorch.freeze": scripted.freeze,
    "pytorch.compile": compilers.copy,
    "pytorch.compile-exported": compilers.copy,
    "pytorch.aoti": compilers.compile_ahead,
    "pytorch.aoti-bf16": compilers.compile_ahead,
}


def transform(job: dict[str, Any]) -> dict[str, Any]:
    """Write ``job["output"]`` from ``job["input"]`` by the job's adaptor; a class is run only if trusted."""
    if job["input"]["format"] == "pytorch-module" and (refusal := jobs.find_distrust(job)):
        return {"refused": refusal}
    return _STEPS[job["adaptor"]](job)
