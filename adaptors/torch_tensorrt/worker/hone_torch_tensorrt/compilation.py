"""Compile an exported program for each shape: supported parts to TensorRT engines; PyTorch runs the rest."""

from __future__ import annotations

from typing import Any

import hone_pytorch
import torch
from torch.export.passes import move_to_device_pass

from hone_runtime.sessions import compiled

from . import session
from .library import DEVICE, require_gpu, torch_tensorrt

Json = dict[str, Any]

_TYPES = {"fp16": torch.float16, "bf16": torch.bfloat16}


def transform(job: Json) -> Json:
    """Write ``index.json`` and a program for each of the recipe's shapes."""
    require_gpu()
    library, pytorch = torch_tensorrt(), hone_pytorch
    program, described = pytorch.jobs.read_program(job)
    inputs, outputs = described["inputs"], described["outputs"]
    fit = [shape for shape in job["shapes"] if compiled.fits(inputs, shape["sizes"])]
    if not fit:
        return {"refused": f"the model is fixed to {inputs[0]['shape']}, which is none of the recipe's shapes"}
    flat, engines = pytorch.models.flatten_program(move_to_device_pass(program, DEVICE)), dict[str, int]()
    settings = make_settings(job["options"])
    for shape in fit:
        examples = tuple(tensor.to(DEVICE) for tensor in pytorch.jobs.make_examples(inputs, shape["sizes"]))
        try:
            with torch.no_grad():
                exported = torch.export.export(flat, examples)
                made = library.dynamo.compile(exported, arg_inputs=examples, **settings)
        except Exception as error:  # noqa: BLE001 - torch and TensorRT raise dozens of classes
            failed: Json = pytorch.jobs.fail("compile", f"Torch-TensorRT cannot compile it for {shape['name']}", error)
            return failed
        engines[shape["name"]] = count_engines(made, library.dynamo.runtime.TorchTensorRTModule)
        if not engines[shape["name"]]:
            return {"nothing_to_do": f"TensorRT takes no {settings['min_block_size']} operators in a row of it"}
        path = str(compiled.find_file(job["output"], shape, session.ENDING))
        library.save(made, path, output_format="exported_program", arg_inputs=examples)
    compiled.write_index(job["output"], {"inputs": inputs, "outputs": outputs})
    metadata = {"torch_tensorrt": library.__version__, "engines": engines}
    return {"outputs": outputs, "static_shapes": [shape["name"] for shape in fit], "metadata": metadata}


def make_settings(options: Json) -> Json:
    """Return the settings of ``torch_tensorrt.dynamo.compile`` from the adaptor's options."""
    low = _TYPES.get(options["autocast"])
    return {
        "device": DEVICE,
        "optimization_level": options["level"],
        "sparse_weights": options["sparse"],
        "disable_tf32": not options["tf32"],
        "workspace_size": options["workspace_mb"] << 20,
        "min_block_size": options["least"],
        "require_full_compilation": options["whole"],
        "enable_autocast": low is not None,
        "autocast_low_precision_type": low,
    }


def count_engines(compiled: torch.nn.Module, kind: type) -> int:
    """Return how many parts of a compiled program TensorRT runs; 0 means that it is unchanged."""
    return sum(isinstance(part, kind) for _, part in compiled.named_children())
