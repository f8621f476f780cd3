"""Train a program while SparseML prunes it, so that its outputs on the training rows remain as before.

The loss is knowledge distillation (G. Hinton et al., "Distilling the Knowledge in a Neural Network", 2015) in its
simplest form, the squared error of the outputs. It needs no labels and is the same for every program.
"""

from __future__ import annotations

import time
from typing import Any

import numpy as np
import torch
from hone_pytorch import models
from sparseml.pytorch.optim import ScheduledModifierManager

from hone_runtime.sessions import shapes

Json = dict[str, Any]
Tensors = list[torch.Tensor]

_PRUNED_BY = 0.6  # the share of epochs in which weights are pruned; in the rest the remaining weights adapt


def find_last_pruned(epochs: int) -> int:
    """Return the number of epochs after which all is pruned."""
    return max(1, round(epochs * _PRUNED_BY))


def tune(job: Json, module: torch.nn.Module, described: Json, recipe: str) -> Json:
    """Train a module with a recipe within the job's epochs and seconds, and restore its best weights; return notes."""
    options, inputs, began = job["options"], described["inputs"], time.monotonic()
    rows, checked = _read(job["training"], inputs), _read(job["program"]["feeds"], inputs)
    size = shapes.find_fixed_batch(spec["shape"] for spec in inputs) or min(options["batch"], len(rows[0]))
    if len(rows[0]) < size:
        return {"refused": f"the training split has {len(rows[0])} rows, and the model takes {size} at once"}
    if not all(torch.isfinite(one).all() for one in rows if one.dtype.is_floating_point):
        return {"refused": "the training split holds numbers that are not finite, which would spoil every weight"}
    parameters = [one for one in module.parameters() if one.dtype.is_floating_point]
    wanted, expected = _run(module, rows, size), _run(module, checked, size)
    for one in parameters:
        one.requires_grad = True
    manager = ScheduledModifierManager.from_yaml(recipe)
    optimizer = torch.optim.Adam(parameters, lr=options["learning_rate"])
    steps = len(rows[0]) // size
    optimizer = manager.modify(module, optimizer, steps_per_epoch=steps, loggers=[])
    generator = torch.Generator().manual_seed(job["seed"])
    last_pruned, best, best_epoch, kept = find_last_pruned(options["epochs"]), float("inf"), 0, None
    for epoch in range(1, options["epochs"] + 1):
        order = torch.randperm(len(rows[0]), generator=generator)
        for numbers in order[: steps * size].split(size):
            optimizer.zero_grad()
            loss = _compare(_call(module, [one[numbers] for one in rows]), [one[numbers] for one in wanted])
            loss.backward()
            optimizer.step()
        error = float(_compare(_run(module, checked, size), expected))
        print(f"epoch {epoch} of {options['epochs']}: error {error:.6f} on the search split", flush=True)  # noqa: T201
        if epoch > last_pruned and error < best:
            best, best_epoch, kept = error, epoch, [one.detach().clone() for one in parameters]
        late = time.monotonic() - began > options["seconds"]
        if late or (kept and epoch - best_epoch >= options["patience"]):
            break
    manager.finalize(module)
    if kept is None:
        return {"refused": _explain(epoch, error, options)}
    with torch.no_grad():
        for one, value in zip(parameters, kept, strict=True):
            one.copy_(value)
    return {"epochs": epoch, "best_epoch": best_epoch, "error": best}


def _read(path: str, inputs: list[Json]) -> Tensors:
    with np.load(path, allow_pickle=False) as arrays:
        return [torch.from_numpy(arrays[spec["name"]].astype(spec["dtype"])) for spec in inputs]


def _call(module: torch.nn.Module, tensors: Tensors) -> Tensors:
    """Return the outputs that are trained: those with floating-point numbers."""
    outputs = models.name_outputs(module(*tensors)).values()
    return [one for one in outputs if one.dtype.is_floating_point]


def _run(module: torch.nn.Module, rows: Tensors, size: int) -> Tensors:
    """Return the outputs for all rows, in calls of one size; the last call is filled up with the first rows."""
    count, parts = len(rows[0]), []
    with torch.no_grad():
        for start in range(0, count, size):
            numbers = torch.arange(start, start + size) % count
            parts.append(_call(module, [one[numbers] for one in rows]))
    return [torch.cat(each)[:count] for each in zip(*parts, strict=True)]


def _compare(found: Tensors, wanted: Tensors) -> torch.Tensor:
    """Return the mean squared error, with each output in units of its own variance."""
    errors = [((a - b) ** 2).mean() / (b.var() + 1e-6) for a, b in zip(found, wanted, strict=True)]
    return torch.stack(errors).mean()


def _explain(epoch: int, error: float, options: Json) -> str:
    """Return why no epoch's weights were accepted."""
    if epoch > find_last_pruned(options["epochs"]):
        rate = options["learning_rate"]
        return f"the training diverged: after {epoch} epochs its error was {error}; lower learning_rate, now {rate:g}"
    return f"{options['seconds']:g} seconds ended the training in epoch {epoch}, before all was pruned"
