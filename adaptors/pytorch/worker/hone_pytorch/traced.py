"""Convert Transformers models by tracing: to ONNX with the TorchScript exporter, and to OpenVINO's IR."""

from __future__ import annotations

import json
import warnings
from pathlib import Path
from typing import Any

import torch

from hone_runtime.worker.imports import set_variables

from . import causal_models, jobs, merged, stateful, steps
from .models import Flat, Job, Notes, Spec

_DIMENSIONS = "kedro_hone_dimensions"  # the toolchain openvino reads the names of an IR's dimensions from there


def to_onnx(job: Job) -> Notes:
    """Write the model as ONNX with the TorchScript exporter, with plain attention and dynamic sizes.

    For a causal language model it has a cache of keys and values, or its notes state why not.
    """
    return write_onnx(*_open(job), job)


def write_onnx(flat: Flat, examples: tuple[torch.Tensor, ...], job: Job) -> Notes:
    """Write an opened model as ``to_onnx`` writes the job's own."""
    import onnx

    flat.model.set_attn_implementation("eager")
    inputs, outputs = job["input"]["inputs"], job["input"]["outputs"]
    noted: Notes = {}
    if causal_models.is_language_model(job):
        written = merged.write(flat.model, job) if job["options"]["cache"] else "the option cache is off"
        if not isinstance(written, str):
            return written
        noted = {"cache": {"absent": written}}
    scratch = Path(job["temporary"]) / "traced"
    scratch.mkdir(parents=True, exist_ok=True)
    try:
        with warnings.catch_warnings(), torch.no_grad():
            warnings.simplefilter("ignore")
            torch.onnx.export(
                flat,
                examples,
                scratch / "model.onnx",
                dynamo=False,
                input_names=[spec["name"] for spec in inputs],
                output_names=[spec["name"] for spec in outputs],
                dynamic_axes={spec["name"]: steps.list_dynamic(spec) for spec in (*inputs, *outputs)},
                opset_version=job["options"]["opset"],
            )
    except Exception as error:  # noqa: BLE001 - the tracer and the exporter raise many classes
        return jobs.fail("convert", "the model cannot be traced", error)
    model = onnx.load(scratch / "model.onnx")
    steps.clean_onnx(model, job["input"])
    steps.save_onnx(model, flat.model, job)
    metadata = {**steps.note_file(model), **noted}
    return {"outputs": outputs, "metadata": metadata}


def to_openvino(job: Job) -> Notes:
    """Write the model as an OpenVINO IR, its weights in their own precision, with the names of tensors and sizes.

    For a causal language model it has a cache of keys and values, or its notes state why not.
    """
    with set_variables(CI="true"):  # no telemetry, whose thread would prevent the process from exiting
        import openvino as ov

    flat, examples = _open(job)
    inputs, outputs = job["input"]["inputs"], job["input"]["outputs"]
    noted: Notes = {}
    if causal_models.is_language_model(job):
        written = stateful.write(flat.model, job, _DIMENSIONS)
        if not isinstance(written, str):
            return written
        noted = {"metadata": {"cache": {"absent": written}}}
    try:
        with warnings.catch_warnings(), torch.no_grad():
            warnings.simplefilter("ignore")
            model = ov.convert_model(flat, example_input=examples)
    except Exception as error:  # noqa: BLE001 - the tracer and the converter raise many classes
        return jobs.fail("convert", "OpenVINO cannot convert the model", error)
    if len(model.inputs) != len(inputs) or len(model.outputs) != len(outputs):
        reason = f"OpenVINO made {len(model.inputs)} inputs and {len(model.outputs)} outputs of it"
        return jobs.fail("convert", reason)
    for port, spec in zip((*model.inputs, *model.outputs), (*inputs, *outputs), strict=True):
        port.get_tensor().set_names({spec["name"]})
    sizes = [[size if isinstance(size, int) else -1 for size in spec["shape"]] for spec in inputs]
    model.reshape({port: ov.PartialShape(size) for port, size in zip(model.inputs, sizes, strict=True)})
    for port, spec in zip(model.inputs, inputs, strict=True):
        port.get_node().set_element_type(ov.Type(_read_dtype(spec)))
    model.validate_nodes_and_infer_types()
    model.set_rt_info(json.dumps({spec["name"]: spec["shape"] for spec in (*inputs, *outputs)}), _DIMENSIONS)
    ov.save_model(model, Path(job["output"]) / "model.xml", compress_to_fp16=False)  # the default is fp16
    return {"outputs": outputs, **noted}


def _read_dtype(spec: Spec) -> Any:
    import numpy as np

    return np.dtype(spec["dtype"])


def _open(job: Job) -> tuple[Flat, tuple[torch.Tensor, ...]]:
    flat = jobs.open_module(job)
    return flat, jobs.make_model_examples(job, flat, jobs.choose_sizes(job, job["input"]["inputs"]))
