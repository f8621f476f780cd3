"""The steps of a compressor: change a network, check that it is faster, train it, and export it again."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any

import torch
from hone_pytorch import archive, exports, jobs, models
from torch import fx

from . import rows
from .distillation import distil, read_schedule
from .layers import UntrainableError, count_parameters, open_trainable

Json = dict[str, Any]
Tensors = tuple[torch.Tensor, ...]
Change = Callable[[fx.GraphModule, rows.Given], fx.GraphModule | str]
"""Returns a changed copy of a module, or why it cannot be changed."""

_LEAST_SPEEDUP = 1.02
_PROBES, _PROBE_SECONDS = 15, 0.02


def compress(
    job: Json, change: Change, *, shrinks: bool = True, after_step: Callable[[float], None] | None = None
) -> Json:
    """Write a program that was changed and trained into the job's output, and return notes.

    Args:
        job: The job of the host.
        change: What is changed.
        shrinks: Whether the change itself makes the network faster: then it is refused, before it is trained, if it
            is not faster here.
        after_step: As in ``distil``.
    """
    if archive.is_quantized(Path(job["input"]["path"]) / "model.pt2"):
        return {"nothing_to_do": "the program is quantized: compress first, then quantize"}
    prepare(job)
    program, described = jobs.read_program(job)
    inputs = described["inputs"]
    examples = jobs.make_examples(inputs, jobs.choose_sizes(job, inputs))
    try:
        source = open_trainable(program, examples)
    except UntrainableError as error:
        return {"refused": f"it cannot be trained: {error}"}
    data = rows.read_data(job, inputs, described["outputs"])
    if (reason := data.find_fault()) is not None:
        return {"refused": reason}
    changed = change(source, rows.Given(job["options"], data, examples))
    if isinstance(changed, str):
        return {"refused": changed}
    gain = measure_gain(source, changed, data.training) if shrinks else None
    if gain is not None and gain < _LEAST_SPEEDUP:
        return {"refused": f"it would not be faster: {gain:.2f} times as fast, so that it was not trained"}
    attends = any("attention" in name or "softmax" in name for name in models.list_operators(program))
    notes = distil(changed, data, read_schedule(job, attends=attends), after_step=after_step)
    if "refused" in notes:
        return notes
    sizes = {"parameters": [count_parameters(source), count_parameters(changed)]}
    trained = {job["adaptor"]: {**sizes, **({} if gain is None else {"probe": round(gain, 3)}), **notes}}
    before = job["input"].get("metadata", {}).get("trained", {})
    bounds = exports.find_bounds(program, inputs)
    return write_program(job, changed.eval(), examples, described, bounds=bounds, trained={**before, **trained})


def prepare(job: Json) -> None:
    """Set the seed and the threads of a job, and let torch compute the same in each run."""
    torch.manual_seed(job["seed"])
    torch.set_num_threads(job["threads"])
    torch.use_deterministic_algorithms(mode=True)


def write_program(
    job: Json,
    module: torch.nn.Module,
    examples: Tensors,
    described: Json,
    *,
    trained: Json,
    bounds: Mapping[str, dict[str, int]] = MappingProxyType({}),
) -> Json:
    """Export a module with the sizes and names of its source, and return the notes of the step."""
    exported = exports.export_dynamic(models.Flat(module), examples, described["inputs"], bounds=bounds)
    written = models.describe_program(exported, described)
    models.save_program(exported, Path(job["output"]), written)
    return {"outputs": written["outputs"], "metadata": {"trained": trained}}


def measure_gain(source: torch.nn.Module, changed: torch.nn.Module, tensors: Sequence[torch.Tensor]) -> float:
    """Return how many times as fast a changed module is, at best of two batch sizes, before anything is trained.

    Both run eagerly and by turns. The figure only decides whether training is worth its time.
    """
    gains = []
    with torch.inference_mode():
        for size in {1, min(64, len(tensors[0]))}:
            batch = [one[:size] for one in tensors]
            times: list[list[float]] = [[], []]
            for _ in range(_PROBES):
                for module, spent in zip((source, changed), times, strict=True):
                    spent.append(_time(module, batch))
            gains.append(min(times[0]) / min(times[1]))
    return max(gains)


def _time(module: torch.nn.Module, batch: Sequence[torch.Tensor]) -> float:
    began, calls = time.perf_counter(), 0
    while (spent := time.perf_counter() - began) < _PROBE_SECONDS or calls < 2:
        module(*batch)
        calls += 1
    return spent / calls
