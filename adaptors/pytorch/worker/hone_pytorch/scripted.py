"""Modules of TorchScript, scripted or traced by their authors: opened, described, frozen and converted to ONNX."""

from __future__ import annotations

import json
import warnings
from pathlib import Path

import torch

from . import archive, jobs, steps
from .models import Job, Notes


def freeze(job: Job) -> Notes:
    """Write the module in inference mode with its parameters as constants, and with its tensors' names."""
    described, module = job["input"], jobs.open_module(job).model
    try:
        frozen = torch.jit.freeze(module) if hasattr(module, "training") else module  # else it is frozen already
    except Exception as error:  # noqa: BLE001 - the compiler raises many classes
        return jobs.fail("compile", "the module cannot be frozen", error)
    names = json.dumps({side: described[side] for side in ("inputs", "outputs")})
    torch.jit.save(frozen, Path(job["output"]) / "model.ts", _extra_files={archive.NAMES_FILE: names})
    return {"outputs": described["outputs"]}


def to_onnx(job: Job) -> Notes:
    """Write the module as ONNX with the TorchScript exporter, with the dynamic sizes of its inputs."""
    import onnx

    flat, described = jobs.open_module(job), job["input"]
    inputs, outputs = described["inputs"], described["outputs"]
    examples = jobs.make_examples(inputs, jobs.choose_sizes(job, inputs))
    scratch = Path(job["temporary"], "scripted.onnx")
    try:
        with warnings.catch_warnings(), torch.no_grad():
            warnings.simplefilter("ignore")
            # A wrapper around the unchanged module: the exporter accepts a tuple, but not a dictionary.
            traced = torch.jit.trace(flat, examples, strict=False, check_trace=False)
            torch.onnx.export(
                traced,
                examples,
                scratch,
                dynamo=False,
                input_names=[spec["name"] for spec in inputs],
                output_names=[spec["name"] for spec in outputs],
                dynamic_axes={spec["name"]: steps.list_dynamic(spec) for spec in (*inputs, *outputs)},
                opset_version=job["options"]["opset"],
            )
    except Exception as error:  # noqa: BLE001 - the exporter raises many classes
        return jobs.fail("convert", "the module cannot be written as ONNX", error)
    model = onnx.load(scratch)
    steps.clean_onnx(model, described)
    steps.save_onnx(model, flat.model, job)
    return {"outputs": outputs, "metadata": steps.note_file(model)}
