"""Compile TorchScript with BladeDISC."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import torch
import torch_blade

from . import session


def transform(job: dict[str, Any]) -> dict[str, Any]:
    """Write ``model.ts`` into the job's output, and return notes with the compiled share of the model."""
    specs = session.keep_specs(job["input"])
    try:
        model = session.open_model(job["input"]["path"])
    except ValueError as error:
        return {"refused": str(error)}
    torch.set_num_threads(job["threads"])
    examples = make_examples(specs["inputs"], job["shapes"][0]["sizes"])
    try:
        with torch.no_grad():  # as in the vendor's code: tensors of the inference mode could not be saved as constants
            compiled = torch_blade.optimize(model, allow_tracing=True, model_inputs=examples)
        engines = torch_blade.mlir.num_engines(compiled)
    except Exception as error:  # noqa: BLE001 - its passes raise many classes
        return {"failed": {"class": "compile", "reason": f"BladeDISC failed: {session.shorten(error)}"}}
    if not engines:  # PyTorch runs what BladeDISC cannot compile, here the whole model; the log has a line on it
        return {"nothing_to_do": "BladeDISC compiled no part of it, so that PyTorch would run the model as it was"}
    names = json.dumps(specs)
    torch.jit.save(compiled, str(Path(job["output"], session.FILE)), _extra_files={session.NAMES_FILE: names})
    versions = {"torch": torch.__version__, "engines": engines}
    return {"outputs": specs["outputs"], "metadata": {"bladedisc": versions}}


def make_examples(specs: list[dict[str, Any]], sizes: dict[str, int]) -> tuple[torch.Tensor, ...]:
    """Return one tensor for each input, for the given dynamic sizes: random numbers, or ones for integers."""
    generator, examples = torch.Generator().manual_seed(0), []
    for spec in specs:
        shape = [dim if isinstance(dim, int) else sizes[dim] for dim in spec["shape"]]
        dtype = getattr(torch, spec["dtype"])
        drawn = torch.rand(shape, generator=generator) if dtype.is_floating_point else torch.ones(shape)
        examples.append(drawn.to(dtype))
    return tuple(examples)
