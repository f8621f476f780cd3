"""Write a recipe of SparseML for a program's layers, apply it, and put the pruned weights back into the program."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from hone_pytorch import archive, jobs, models
from sparseml.pytorch.optim import ScheduledModifierManager

from . import tuning

Json = dict[str, Any]

_OPERATORS = ("aten.conv", "aten.linear", "aten.matmul", "aten.mm", "aten.addmm", "aten.bmm")
_WIDTH = 4  # of a block, and of the N:M pattern
_MODIFIER = """modifiers:
  - !EpochRangeModifier
    start_epoch: 0.0
    end_epoch: {epochs}
  - !MagnitudePruningModifier
    params: {params!r}
    init_sparsity: {first}
    final_sparsity: {sparsity}
    start_epoch: 0.0
    end_epoch: {end}
    update_frequency: 1.0
    mask_type: "{pattern}"
"""


def transform(job: Json) -> Json:
    """Prune the job's program in one step, or during training."""
    if archive.is_quantized(Path(job["input"]["path"]) / "model.pt2"):
        return {"nothing_to_do": "the program is quantized: prune first, then quantize"}
    torch.manual_seed(job["seed"])
    torch.use_deterministic_algorithms(mode=True)
    program, described = jobs.read_program(job)
    names = find_layers(program, job["options"]["pattern"])
    if not names:
        return {"nothing_to_do": "the program has no convolution or linear layer whose weights fit the pattern"}
    module = program.module()
    notes: Json = {}
    if job["adaptor"] == "sparseml.tune":
        notes = tuning.tune(job, module, described, write_recipe(names, job["options"], job["options"]["epochs"]))
        if "refused" in notes:
            return notes
    else:
        ScheduledModifierManager.from_yaml(write_recipe(names, job["options"], 1)).apply(module)
    weights = dict(module.named_parameters())
    zeros = {name: round(float((weights[name] == 0).float().mean()), 4) for name in names}
    short = {name: found for name, found in zeros.items() if found < job["options"]["sparsity"] - 0.05}
    if short:
        name, found = next(iter(short.items()))
        return jobs.fail("compress", f"SparseML left {name} at a sparsity of {found}")
    with torch.no_grad():
        for name, value in program.state_dict.items():
            if name in weights:
                value.copy_(weights[name])
    models.save_program(program, Path(job["output"]), described)
    pruned = {"pattern": job["options"]["pattern"], "sparsity": zeros, **notes}
    return {"outputs": described["outputs"], "metadata": {"pruned": pruned}}


def write_recipe(names: list[str], options: Json, epochs: int) -> str:
    """Return SparseML's recipe: in one step for N:M, which has only one sparsity, or for one epoch; else gradually."""
    sparsity, at_once = options["sparsity"], options["pattern"] == "2:4" or epochs == 1
    return _MODIFIER.format(
        epochs=float(epochs),
        params=names,
        first=sparsity if at_once else min(0.05, sparsity),
        sparsity=sparsity,
        end=float(tuning.find_last_pruned(epochs)) if epochs > 1 else 1.0,
        pattern=options["pattern"],
    )


def find_layers(program: torch.export.ExportedProgram, pattern: str) -> list[str]:
    """Return the parameters that are weights of convolutions and linear layers, if their inputs fit the pattern."""
    parameters = program.graph_signature.inputs_to_parameters
    found: dict[str, bool] = {}
    for node in program.graph.nodes:
        if node.op != "call_function" or not str(node.target).startswith(_OPERATORS):
            continue
        for source in node.all_input_nodes:
            name = parameters.get(source.name)
            shape = source.meta["val"].shape
            if name is not None and len(shape) >= 2:
                # SparseML's N:M mask for a convolution has another order of axes than the weight, and fails.
                fits = shape[1] % _WIDTH == 0 and (pattern == "block4" or len(shape) == 2)
                found[name] = pattern == "unstructured" or fits
    return [name for name, fits in found.items() if fits]
