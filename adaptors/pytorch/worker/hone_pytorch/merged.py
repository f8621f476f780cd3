"""Causal language models with a cache of keys and values, as one ONNX graph for whole sequences and for steps.

The graph has the model's inputs and outputs. It has additional optional inputs, with defaults as initializers.
``past_key_values.<layer>.key`` and ``.value`` (rows, heads, columns, size of a head) are empty by default.
``position_shift`` (rows, columns), which is added to the positions, is 0 by default. Its additional outputs
``present.<layer>.key`` and ``.value`` are the cache with the new columns. So there is one file and one copy of the
weights, and any optimization or quantization of the graph applies to both uses.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

from hone_runtime.sessions import key_values as check

from . import causal_models, steps
from .causal_models import SHIFT
from .models import Job, Notes, Spec

_WHOLE = " + past"  # suffix for the columns of cache and new tokens together, which are another size


def write(model: nn.Module, job: Job) -> Notes | str:
    """Write the graph into the job's output and check it; return its notes, or why it has no cache."""
    if refusal := causal_models.find_refusal(model, job):
        return refusal
    output = Path(job["output"])
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            made, known = _convert(model, job)
        steps.save_onnx(made, model, job)
        fault = _find_fault(output, model, job)
    except Exception as error:  # noqa: BLE001 - the tracer, the exporter and the evaluator raise many classes
        fault = f"it cannot be converted with one ({' '.join(str(error).split())[:300]})"
    if fault is None:
        notes = {"opset": job["options"]["opset"], "ir_version": made.ir_version, "cache": known}
        return {"outputs": job["input"]["outputs"], "metadata": notes}
    for path in output.iterdir():
        path.unlink()
    return fault


def _convert(model: nn.Module, job: Job) -> tuple[Any, dict[str, int]]:
    """Return the graph, and the facts about its cache."""
    import onnx

    given, past = job["input"]["inputs"], causal_models.make_past(model)
    own = [] if any(spec["name"] == causal_models.POSITIONS for spec in given) else [SHIFT]
    inputs, outputs = [*map(_widen, given), *map(_describe, own)], [*job["input"]["outputs"]]
    examples, first = (
        causal_models.make_examples(causal_models.find_limit(job) or 64),
        [spec["name"] for spec in inputs],
    )
    for index, tensor in enumerate(past):
        end, shape = f"{index // 2}.{'value' if index % 2 else 'key'}", tensor.shape
        inputs.append(_describe(f"past_key_values.{end}", shape))
        mask = next(spec for spec in inputs if spec["name"] == causal_models.MASK)
        outputs.append({"name": f"present.{end}", "shape": [mask["shape"][0], shape[1], mask["shape"][1], shape[3]]})
    path = Path(job["temporary"]) / "merged" / "model.onnx"
    path.parent.mkdir(parents=True, exist_ok=True)
    with torch.no_grad():
        torch.onnx.export(
            causal_models.Cached(model, first),
            (*[examples[name] for name in first], *past),
            path,
            dynamo=False,
            input_names=[spec["name"] for spec in inputs],
            output_names=[spec["name"] for spec in outputs],
            dynamic_axes={spec["name"]: steps.list_dynamic(spec) for spec in (*inputs, *outputs)},
            opset_version=job["options"]["opset"],
        )
    made = onnx.load(path)
    steps.clean_onnx(made, {"inputs": inputs, "outputs": outputs})
    for value in made.graph.input[len(given) :]:
        _begin_empty(made.graph, value)
    return made, causal_models.describe(past)


def _widen(spec: Spec) -> Spec:
    """Return an input's specification for use with a cache: the mask also covers the columns of the cache."""
    if spec["name"] != causal_models.MASK:
        return spec
    rows, columns = spec["shape"]
    return {**spec, "shape": [rows, f"{columns}{_WHOLE}"]}


def _describe(name: str, shape: Sequence[int] = ()) -> Spec:
    """Return the specification of an input that callers never pass; its rows are those of the other inputs, or one."""
    return {"name": name, "shape": ["rows", shape[1], "past", shape[3]] if shape else ["rows", "columns"]}


def _begin_empty(graph: Any, value: Any) -> None:
    """Give an input its default, and unnamed sizes: the default has one row, however many rows the others have."""
    from onnx import numpy_helper

    dims = value.type.tensor_type.shape.dim
    cache = value.name != SHIFT
    shape = [1, dims[1].dim_value, 0, dims[3].dim_value] if cache else [1, 1]
    graph.initializer.append(numpy_helper.from_array(np.zeros(shape, np.float32 if cache else np.int64), value.name))
    for dim in dims:
        if dim.HasField("dim_param"):
            dim.Clear()


def _find_fault(folder: Path, model: nn.Module, job: Job) -> str | None:
    """Return how the saved graph's logits of real tokens differ from the model's; None if they do not."""
    from onnx.reference import ReferenceEvaluator

    feeds, wanted = causal_models.make_check(model, job)
    evaluator = ReferenceEvaluator(str(folder / "model.onnx"))
    past = causal_models.make_past(model)
    fault: str | None = check.find_fault(
        lambda: _Steps(evaluator, past), feeds, wanted, whose="the model's", rounds=False
    )
    return fault


class _Steps:
    """Sequences that grow, computed by ONNX's reference evaluator: the definition of the graph's operators."""

    def __init__(self, evaluator: Any, past: Sequence[torch.Tensor]) -> None:
        self._evaluator = evaluator
        self._names = [name for name in evaluator.input_names if name.startswith("past_key_values.")]
        self._kept = [np.zeros((3, each.shape[1], 0, each.shape[3]), np.float32) for each in past]

    def advance(self, feeds: dict[str, np.ndarray[Any, Any]], order: np.ndarray[Any, Any] | None) -> dict[str, Any]:
        kept, past = self._kept if order is None else [each[order] for each in self._kept], self._kept[0].shape[2]
        given = dict(feeds)
        if SHIFT in self._evaluator.input_names:
            positions = given.pop(causal_models.POSITIONS)
            given[SHIFT] = positions - np.arange(past, past + positions.shape[1])
        logits, *self._kept = self._evaluator.run(None, {**given, **dict(zip(self._names, kept, strict=True))})
        return {"logits": logits}
