"""Inputs and outputs of a Transformers model, found by calling its own class."""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import nn

from hone_runtime.worker.refusal import UnsuitedError

from . import models
from .inputs import CHANGED, FILLS, SIZES, find_limits, list_inputs, make_examples
from .models import Job, Notes, Spec
from .pretrained import open_with_notes
from .sentences import find_encoder

_SAME = 1e-5  # relative to the largest result: with a mask of ones, additions in attention may have another order


def describe(job: Job) -> Notes:
    """Return the specs of a model, the structure of its results, and the behaviour on which callers may rely."""
    try:
        model, notes = open_with_notes(job)
        described = _describe(model, job)
    except UnsuitedError as error:
        return {"refused": str(error)}
    if notes and "refused" not in described:
        described["warnings"] = notes
    return described


def _describe(model: nn.Module, job: Job) -> Notes:
    notes = job["input"]["metadata"]["transformers"]
    stated = [
        spec
        for spec in job["input"]["inputs"]
        if spec["name"] in inspect.signature(find_encoder(model).forward).parameters
    ]
    limits = find_limits(model, notes["kind"])
    inputs = stated or list_inputs(model, Path(job["input"]["path"]), notes["kind"])
    sizes = {name: min(size, limits.get(name, size)) for name, size in SIZES.items()}
    with torch.inference_mode():
        result = _call(model, make_examples(inputs, sizes, model))
        if refusal := models.find_refusal(result):
            return {"refused": refusal}
        changed = {
            name: _call(model, make_examples(inputs, {**sizes, name: min(size, limits.get(name, size))}, model))
            for name, size in CHANGED.items()
            if any(name in spec["shape"] for spec in inputs)
        }
        optional = _find_optional(model, inputs, sizes)
    named = models.name_outputs(result)
    others = {name: models.name_outputs(value) for name, value in changed.items()}
    outputs = [_describe_output(name, value, sizes, others) for name, value in named.items()]
    names = _avoid([spec["name"] for spec in inputs], list(named))
    outputs = [{**spec, "name": name} for spec, name in zip(outputs, names, strict=True)]
    about = {
        **notes,
        "class": type(find_encoder(model)).__name__,
        "output_class": type(result).__name__,
        "optional": optional,
    }
    about |= {"limits": limits} if limits else {}
    if type(model).__module__.startswith("transformers_modules."):
        about["remote_code"] = True
    return {
        "inputs": inputs,
        "outputs": outputs,
        "transformers": about,
        "operators": models.list_operators(model),
        **models.describe_structure(result, names),
    }


def _call(model: nn.Module, feeds: Mapping[str, torch.Tensor]) -> Any:
    return model(**feeds)


def _avoid(taken: Sequence[str], names: Sequence[str]) -> list[str]:
    """Return names for the outputs that differ from all input names."""
    return [f"{name}_out" if name in taken else name for name in names]


def _find_optional(model: nn.Module, inputs: Sequence[Spec], sizes: Mapping[str, int]) -> dict[str, int]:
    """Return the inputs that may be omitted, with their fill values: the results are then equal up to rounding."""
    examples = make_examples(inputs, sizes, model)
    whole = list(models.name_outputs(_call(model, examples)).values())
    found = {}
    for name in (name for name in examples if name in FILLS):
        try:
            rest = _call(model, {other: value for other, value in examples.items() if other != name})
        except (ValueError, TypeError, RuntimeError):  # the class requires it
            continue
        pairs = zip(whole, models.name_outputs(rest).values(), strict=True)
        if all(_are_close(one, other) for one, other in pairs):
            found[name] = FILLS[name]
    return found


def _are_close(one: torch.Tensor, other: torch.Tensor) -> bool:
    largest = float(one.abs()[one.isfinite()].max()) if one.isfinite().any() else 0.0
    return bool(torch.allclose(one, other, rtol=0, atol=_SAME * largest, equal_nan=True))


def _describe_output(
    name: str, value: torch.Tensor, sizes: Mapping[str, int], others: Mapping[str, Mapping[str, torch.Tensor]]
) -> Spec:
    """Return an output's spec; an axis that depends on a size without being equal to it has its own name."""
    shape: list[int | str] = list(value.shape)
    for dim, results in others.items():
        changed = results[name]
        for axis, size in enumerate(changed.shape):
            if size != value.shape[axis]:
                equal = value.shape[axis] == sizes[dim] and dim != "samples"
                shape[axis] = dim if equal else "frames" if dim == "samples" else f"{name}_{axis}"
    return {"name": name, "dtype": str(value.dtype).removeprefix("torch."), "shape": shape}
