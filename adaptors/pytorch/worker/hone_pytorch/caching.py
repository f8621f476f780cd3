"""Causal language models as functions of tensors, with the keys and values of each layer, and what they need for it.

``stateful`` makes an IR of OpenVINO of them, and ``merged`` a graph of ONNX.
"""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import nn

from hone_runtime.sessions import caching as check

from .models import Job

IDS, MASK, POSITIONS = check.IDS, check.MASK, check.POSITIONS
ORDER = "beam_idx"
"""For each row, which row of the cache it continues."""
SHIFT = "position_shift"
"""What is added to the positions, which are counted from the first column of the cache."""
PAST = 5  # columns of the example's cache

_MASKED = -1e30  # finite in bf16 too: a row that sees nothing stays a number


def find_refusal(model: nn.Module, job: Job) -> str | None:
    """Return why a model's cache cannot be converted; None where it may be tried."""
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
    if 0 < find_limit(job) < check.LEAST:
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
        """Take a model and the names of its first inputs, where ``beam_idx`` and ``position_shift`` may be among."""
        super().__init__()
        self.model, self.names = model, names
        self.train(model.training)  # an exporter sets all modules to what the outer one was

    def forward(self, *tensors: torch.Tensor) -> tuple[torch.Tensor, ...]:
        """Compute the new columns; the mask is that of all columns, those of the cache included."""
        from transformers.cache_utils import DynamicCache, DynamicLayer

        count = len(self.names)
        named, past = dict(zip(self.names, tensors[:count], strict=True)), tensors[count:]
        order, shift = named.pop(ORDER, None), named.pop(SHIFT, None)
        cache = DynamicCache()
        for keys, values in zip(past[::2], past[1::2], strict=True):
            layer = DynamicLayer()
            layer.lazy_initialization(keys, values)
            layer.keys, layer.values = (
                each if order is None else each.index_select(0, order) for each in (keys, values)
            )
            cache.layers.append(layer)
        ids, mask = named[IDS], named[MASK]
        if shift is not None:
            columns = torch.arange(mask.shape[1])[mask.shape[1] - ids.shape[1] :]
            named[POSITIONS] = (columns[None, :] + shift).expand(ids.shape)
        named[MASK] = _mask(mask, ids.shape[1])
        result = self.model(**named, past_key_values=cache, use_cache=True)
        present = [tensor for layer in result.past_key_values.layers for tensor in (layer.keys, layer.values)]
        return result.logits, *present


def _mask(mask: torch.Tensor, new: int) -> torch.Tensor:
    """Return what is added to the scores (batch, 1, new, all): each column sees itself and the real ones before it.

    The model's own mask is made by branches that a tracer would freeze; and where a row sees nothing, as padding on the
    left does, a runtime's attention may return no numbers.
    """
    columns = torch.arange(mask.shape[1])
    seen = columns[None, :] <= columns[mask.shape[1] - new :][:, None]
    seen = seen[None, None] & (mask[:, None, None, :] != 0)
    return torch.where(seen, 0.0, _MASKED)


def make_past(model: nn.Module) -> list[torch.Tensor]:
    """Return keys and values of each layer in turn, of three rows and a few columns."""
    layers = _run(model, torch.ones(3, PAST, dtype=torch.int64)).past_key_values.layers
    return [tensor for layer in layers for tensor in (layer.keys, layer.values)]


def make_examples(limit: int) -> dict[str, torch.Tensor]:
    """Return three rows of new columns behind those of the cache; one is padded on the left, as in a real batch."""
    new = max(2, min(12, limit - PAST))
    mask = torch.ones(3, PAST + new, dtype=torch.int64)
    mask[0, :2] = 0
    positions = torch.arange(PAST, PAST + new).repeat(3, 1).clamp(max=limit - 1)
    return {
        IDS: torch.arange(3 * new).reshape(3, new) % 2,
        MASK: mask,
        POSITIONS: positions,
        ORDER: torch.arange(3, dtype=torch.int32),  # OpenVINO fuses a cache with its attention by an order of this type
        SHIFT: positions - torch.arange(PAST, PAST + new),
    }


def describe(past: Sequence[torch.Tensor]) -> dict[str, int]:
    """Return what the metadata tell of a cache of these keys and values."""
    return {"layers": len(past) // 2, "heads": past[0].shape[1], "head_size": past[0].shape[3]}


def make_check(model: nn.Module, job: Job) -> tuple[dict[str, np.ndarray[Any, Any]], np.ndarray[Any, Any]]:
    """Return rows to check a cache with, and the model's own logits."""
    feeds = check.make_rows(model.config.get_text_config().vocab_size, find_limit(job))
    with torch.no_grad():
        logits = model(**{name: torch.from_numpy(array) for name, array in feeds.items()}, use_cache=False).logits
    return feeds, logits.numpy()


def is_language_model(job: Job) -> bool:
    """Tell whether the source is one whose callers generate with a cache."""
    return bool(job["input"].get("metadata", {}).get("transformers", {}).get("auto_class") == "AutoModelForCausalLM")
