"""Causal language models with a cache of keys and values, as a stateful OpenVINO IR.

The IR has the model's inputs and outputs. The cache is its state, which is empty for a plain run. The runtime fills two
additional inputs: ``beam_idx`` (which rows of the state the rows continue) and, unless the model has it anyway,
``position_ids``. Method: ``MakeStateful`` and the initial values of the state, as in optimum-intel.
"""

from __future__ import annotations

import json
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

from hone_runtime.sessions import key_values as check

from . import causal_models
from .causal_models import ORDER
from .models import Job, Notes


def convert(model: nn.Module, job: Job) -> tuple[Any, Notes]:
    """Return the stateful OpenVINO model, and the facts about its cache.

    Raises:
        RuntimeError: It cannot be traced or converted; torch and OpenVINO may raise other exceptions too.
    """
    import openvino as ov
    from openvino._offline_transformations import apply_make_stateful_transformation

    given = [spec["name"] for spec in job["input"]["inputs"]]
    names = [*given, *([] if causal_models.POSITIONS in given else [causal_models.POSITIONS]), ORDER]
    past, examples = causal_models.make_past(model), causal_models.make_examples(causal_models.find_limit(job) or 64)
    with torch.no_grad():
        made = ov.convert_model(
            causal_models.Cached(model, names), example_input=(*[examples[name] for name in names], *past)
        )
    kept = [f"{kind}_{index}" for index in range(len(past) // 2) for kind in ("keys", "values")]
    sizes = [[-1] * examples[name].dim() for name in names] + [[-1, each.shape[1], -1, each.shape[3]] for each in past]
    named = (*names, *(f"past_{name}" for name in kept))
    for port, name, example in zip(made.inputs, named, [*[examples[each] for each in names], *past], strict=True):
        port.get_tensor().set_names({name})
        port.get_node().set_element_type(ov.Type(np.dtype(str(example.dtype).removeprefix("torch."))))
    for port, name in zip(made.outputs, ("logits", *(f"present_{name}" for name in kept)), strict=True):
        port.get_tensor().set_names({name})
    made.reshape({port: ov.PartialShape(size) for port, size in zip(made.inputs, sizes, strict=True)})
    made.validate_nodes_and_infer_types()
    apply_make_stateful_transformation(made, {f"past_{name}": f"present_{name}" for name in kept})
    _begin_empty(made)
    return made, causal_models.describe(past)


def _begin_empty(made: Any) -> None:
    """Initialize each state with as many rows as the tokens have, and no columns."""
    from openvino import opset13 as operators

    rows = operators.gather(
        operators.shape_of(made.input(causal_models.IDS), output_type="i64"),
        operators.constant(np.array([0], np.int64)),
        operators.constant(np.int64(0)),
    )
    for node in made.get_ops():
        if node.get_type_name() == "ReadValue":
            sizes = [dim.get_length() if dim.is_static else 0 for dim in node.get_output_partial_shape(0)][1:]
            shape = operators.concat([rows, operators.constant(np.array(sizes, np.int64))], 0)
            node.set_arguments([operators.broadcast(operators.constant(np.float32(0)), shape)])
    made.validate_nodes_and_infer_types()


def _find_fault(folder: Path, model: nn.Module, job: Job) -> str | None:
    """Return how the saved IR's logits of real tokens differ from the model's; None if they do not."""
    import openvino as ov

    feeds, wanted = causal_models.make_check(model, job)
    properties = {"INFERENCE_PRECISION_HINT": "f32", "KV_CACHE_PRECISION": "f32", "INFERENCE_NUM_THREADS": 1}
    compiled = ov.Core().compile_model(folder / "model.xml", "CPU", properties)
    fault: str | None = check.find_fault(lambda: _Steps(compiled), feeds, wanted, whose="the model's", rounds=False)
    return fault


class _Steps:
    """Sequences that grow, with their own state."""

    def __init__(self, compiled: Any) -> None:
        self._request = compiled.create_infer_request()

    def advance(self, feeds: dict[str, np.ndarray[Any, Any]], order: np.ndarray[Any, Any] | None) -> dict[str, Any]:
        rows = np.arange(len(feeds[causal_models.IDS])) if order is None else order
        return {"logits": self._request.infer({**feeds, ORDER: rows.astype(np.int32)})["logits"]}


def write(model: nn.Module, job: Job, dimensions: str) -> Notes | str:
    """Write the stateful IR into the job's output and check it; return its notes, or why it has no cache.

    Args:
        model: An opened model.
        job: The adaptor's job.
        dimensions: The key under which the IR stores the names of its tensors' sizes.
    """
    import openvino as ov

    if refusal := causal_models.find_refusal(model, job):
        return refusal
    output, outputs = Path(job["output"]), job["input"]["outputs"]
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            made, known = convert(model, job)
        made.set_rt_info(json.dumps({s["name"]: s["shape"] for s in (*job["input"]["inputs"], *outputs)}), dimensions)
        ov.save_model(made, output / "model.xml", compress_to_fp16=False)
        fault = _find_fault(output, model, job)
    except Exception as error:  # noqa: BLE001 - the tracer, the converter and the runtime raise many classes
        fault = f"it cannot be converted with one ({' '.join(str(error).split())[:300]})"
    return fault or {"outputs": outputs, "metadata": {"cache": known}}
