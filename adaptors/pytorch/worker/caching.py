"""Causal language models with a cache of keys and values, as a stateful IR of OpenVINO.

The IR takes and returns what the model does. The cache is its state, which is empty for a plain run; two more inputs
are the runtime's own to fill: ``beam_idx`` (which rows of the state the rows continue) and, unless the model has it
anyway, ``position_ids``. Method: ``MakeStateful`` and the initial values of the state as optimum-intel has them.
"""

from __future__ import annotations

import inspect
import json
import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

from .models import Job, Notes

IDS, MASK, POSITIONS, ORDER = "input_ids", "attention_mask", "position_ids", "beam_idx"
_PAST = 5  # columns of the example's cache
_MASKED = -1e30  # finite in bf16 too: a row that sees nothing stays a number
_SAME = 1e-3  # of the largest logit: with a cache the same numbers are added in another order
_LEAST = 3  # columns that the check needs


def find_refusal(model: nn.Module, job: Job) -> str | None:
    """Return why a model's cache cannot become a state; None where it may be tried."""
    return _judge_call(model, job) or _judge_cache(model)


def _judge_call(model: nn.Module, job: Job) -> str | None:
    names = {spec["name"] for spec in job["input"]["inputs"]}
    outputs = [spec["name"] for spec in job["input"]["outputs"]]
    if not {IDS, MASK} <= names <= {IDS, MASK, POSITIONS}:
        return f"a cache needs the inputs {IDS} and {MASK}, and the model takes {', '.join(sorted(names))}"
    if outputs != ["logits"]:
        return f"the model returns {', '.join(outputs)}, and a cache is for logits alone"
    missing = {"past_key_values", POSITIONS} - inspect.signature(model.forward).parameters.keys()
    if missing:
        return f"{type(model).__name__} takes no {min(missing)}"
    if 0 < find_limit(job) < _LEAST:
        return f"its {find_limit(job)} positions are too few to check a cache"
    return None


def _judge_cache(model: nn.Module) -> str | None:
    cache = _run(model, torch.ones(1, 2, dtype=torch.int64)).past_key_values
    kinds = sorted({type(layer).__name__ for layer in getattr(cache, "layers", [])})
    if type(cache).__name__ != "DynamicCache" or kinds != ["DynamicLayer"]:
        return f"its cache is a {type(cache).__name__} of {', '.join(kinds) or 'no layers'}, and not of plain ones"
    if any(getattr(layer, "keys", None) is None or layer.keys.dim() != 4 for layer in cache.layers):
        return "some of its layers share others' keys and values"
    return None


def find_limit(job: Job) -> int:
    """Return the most tokens that the model takes; 0 where nothing limits them."""
    return int(job["input"]["metadata"]["transformers"].get("limits", {}).get("length", 0))


def _run(model: nn.Module, ids: torch.Tensor, **kwargs: Any) -> Any:
    with torch.no_grad():
        return model(input_ids=ids, use_cache=True, **kwargs)


class Cached(nn.Module):  # type: ignore[misc]  # torch is not installed where types are checked
    """A language model as a function of tensors: what it takes by name, then the keys and values of each layer.

    It returns the logits, and the keys and values with those of the new columns.
    """

    def __init__(self, model: nn.Module, names: Sequence[str]) -> None:
        """Take a model and the names of its first inputs, of which the last is ``beam_idx``."""
        super().__init__()
        self.model, self.names = model, names

    def forward(self, *tensors: torch.Tensor) -> tuple[torch.Tensor, ...]:
        """Compute the new columns; the mask is that of all columns, those of the cache included."""
        from transformers.cache_utils import DynamicCache, DynamicLayer

        count = len(self.names)
        named, past = dict(zip(self.names, tensors[:count], strict=True)), tensors[count:]
        order = named.pop(ORDER)
        cache = DynamicCache()
        for keys, values in zip(past[::2], past[1::2], strict=True):
            layer = DynamicLayer()
            layer.lazy_initialization(keys, values)
            layer.keys, layer.values = keys.index_select(0, order), values.index_select(0, order)
            cache.layers.append(layer)
        named[MASK] = _mask(named[MASK], named[IDS].shape[1])
        result = self.model(**named, past_key_values=cache, use_cache=True)
        present = [tensor for layer in result.past_key_values.layers for tensor in (layer.keys, layer.values)]
        return result.logits, *present


def _mask(mask: torch.Tensor, new: int) -> torch.Tensor:
    """Return what is added to the scores (batch, 1, new, all): each column sees itself and the real ones before it.

    The model's own mask is made by branches that a tracer would freeze; and where a row sees nothing, as padding on the
    left does, OpenVINO's attention would return no numbers.
    """
    columns = torch.arange(mask.shape[1])
    seen = columns[None, :] <= columns[mask.shape[1] - new :][:, None]
    seen = seen[None, None] & (mask[:, None, None, :] != 0)
    return torch.where(seen, 0.0, _MASKED)


def convert(model: nn.Module, job: Job) -> tuple[Any, Notes]:
    """Return the stateful model of OpenVINO, and what is known of its cache.

    Raises:
        RuntimeError: Among others of torch's and OpenVINO's: it cannot be traced or converted.
    """
    import openvino as ov
    from openvino._offline_transformations import apply_make_stateful_transformation

    given = [spec["name"] for spec in job["input"]["inputs"]]
    names = [*given, *([] if POSITIONS in given else [POSITIONS]), ORDER]
    layers = _run(model, torch.ones(3, _PAST, dtype=torch.int64)).past_key_values.layers
    past = [tensor for layer in layers for tensor in (layer.keys, layer.values)]
    examples = _make_examples(find_limit(job) or 64)
    with torch.no_grad():
        made = ov.convert_model(Cached(model, names), example_input=(*[examples[name] for name in names], *past))
    kept = [f"{kind}_{index}" for index in range(len(layers)) for kind in ("keys", "values")]
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
    keys = layers[0].keys
    return made, {"layers": len(layers), "heads": keys.shape[1], "head_size": keys.shape[3]}


def _make_examples(limit: int) -> dict[str, torch.Tensor]:
    """Return three rows of new columns behind those of the cache; one is padded on the left, as in a real batch."""
    new = max(2, min(12, limit - _PAST))
    mask = torch.ones(3, _PAST + new, dtype=torch.int64)
    mask[0, :2] = 0
    return {
        IDS: torch.arange(3 * new).reshape(3, new) % 2,
        MASK: mask,
        POSITIONS: torch.arange(_PAST, _PAST + new).repeat(3, 1).clamp(max=limit - 1),
        ORDER: torch.arange(3, dtype=torch.int32),  # OpenVINO fuses a cache with its attention by an order of this type
    }


def _begin_empty(made: Any) -> None:
    """Let each state begin with as many rows as the tokens have, and no columns."""
    from openvino import opset13 as operators

    rows = operators.gather(
        operators.shape_of(made.input(IDS), output_type="i64"),
        operators.constant(np.array([0], np.int64)),
        operators.constant(np.int64(0)),
    )
    for node in made.get_ops():
        if node.get_type_name() == "ReadValue":
            sizes = [dim.get_length() if dim.is_static else 0 for dim in node.get_output_partial_shape(0)][1:]
            shape = operators.concat([rows, operators.constant(np.array(sizes, np.int64))], 0)
            node.set_arguments([operators.broadcast(operators.constant(np.float32(0)), shape)])
    made.validate_nodes_and_infer_types()


def find_fault(folder: Path, model: nn.Module, job: Job) -> str | None:
    """Compare the saved IR with the model itself: at once, and column by column with rows that change places.

    Returns:
        What is wrong: logits of real tokens differ. None where all agree.
    """
    import openvino as ov

    limit = find_limit(job) or 11
    config = model.config.get_text_config()
    ids = torch.randint(0, config.vocab_size, (3, min(11, limit)), generator=torch.Generator().manual_seed(1))
    mask = torch.ones_like(ids)
    mask[0, : ids.shape[1] // 3] = 0
    feeds = {IDS: ids, MASK: mask, POSITIONS: (mask.cumsum(1) - 1).clamp(min=0)}
    with torch.no_grad():
        wanted = model(**feeds, use_cache=False).logits.numpy()
    properties = {"INFERENCE_PRECISION_HINT": "f32", "KV_CACHE_PRECISION": "f32", "INFERENCE_NUM_THREADS": 1}
    request = ov.Core().compile_model(folder / "model.xml", "CPU", properties).create_infer_request()
    real, largest = mask.bool().numpy(), float(np.abs(wanted).max())
    for cuts in ([ids.shape[1]], [ids.shape[1] // 2, *range(ids.shape[1] // 2 + 1, ids.shape[1] + 1)]):
        request.reset_state()
        found = _advance(request, feeds, cuts)
        error = float(np.abs(found - wanted)[real].max())
        if not error <= _SAME * largest:
            how = "a run at once" if len(cuts) == 1 else "steps with the cache"
            return f"{how} gave logits that differ from the model's by {error:.3g} of {largest:.3g}"
    return None


def _advance(request: Any, feeds: Mapping[str, torch.Tensor], cuts: Sequence[int]) -> np.ndarray[Any, Any]:
    """Return the logits of the columns up to each cut; each step takes the rows in another order."""
    found, start, rows = [], 0, np.arange(len(feeds[IDS]))
    for end in cuts:
        turned = rows if start == 0 else np.roll(rows, 1)
        parts = {
            IDS: feeds[IDS][:, start:end].numpy()[turned],
            MASK: feeds[MASK][:, :end].numpy()[turned],
            POSITIONS: feeds[POSITIONS][:, start:end].numpy()[turned],
            ORDER: np.roll(np.arange(len(rows), dtype=np.int32), 1 if start else 0),
        }
        logits = request.infer(parts)["logits"]
        back = np.empty_like(logits)
        back[turned] = logits
        found.append(back)
        rows, start = turned, end
    return np.concatenate(found, 1)


def write(model: nn.Module, job: Job, dimensions: str) -> Notes | str:
    """Write the stateful IR into the job's output and check it; return its notes, or why it has no cache.

    Args:
        model: A model that was opened.
        job: The job of the adaptor.
        dimensions: Under which name the IR keeps the names of its tensors' sizes.
    """
    import openvino as ov

    if refusal := find_refusal(model, job):
        return refusal
    output, outputs = Path(job["output"]), job["input"]["outputs"]
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            made, known = convert(model, job)
        made.set_rt_info(json.dumps({s["name"]: s["shape"] for s in (*job["input"]["inputs"], *outputs)}), dimensions)
        ov.save_model(made, output / "model.xml", compress_to_fp16=False)
        fault = find_fault(output, model, job)
    except Exception as error:  # noqa: BLE001 - the tracer, the converter and the runtime raise many classes
        fault = f"it cannot be converted with one ({' '.join(str(error).split())[:300]})"
    return fault or {"outputs": outputs, "metadata": {"cache": known}}


def is_language_model(job: Job) -> bool:
    """Tell whether the source is one whose callers generate with a cache."""
    return bool(job["input"]["metadata"]["transformers"].get("auto_class") == "AutoModelForCausalLM")
