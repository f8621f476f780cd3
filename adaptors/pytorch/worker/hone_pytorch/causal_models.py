"""Causal language models as functions of tensors that include each layer's keys and values.

``stateful`` converts them to an OpenVINO IR, and ``merged`` to an ONNX graph.
"""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import nn

from hone_runtime.sessions import key_values as check

from .models import Job

IDS, MASK, POSITIONS = check.IDS, check.MASK, check.POSITIONS
ORDER = "beam_idx"
"""For each row, the row of the cache that it continues."""
SHIFT = "position_shift"
"""The offset that is added to the positions, which are counted from the first column of the cache."""
PAST = 5  # columns of the cache in the example

_MASKED = -1e30  # finite in bf16 too: a row that attends to nothing still has finite numbers


def find_refusal(model: nn.Module, job: Job) -> str | None:
    """Return why a model's cache cannot be converted; None if a conversion can be tried."""
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
    """Return the largest number of tokens that the model accepts; 0 for no limit."""
    return int(job["input"]["metadata"]["transformers"].get("limits", {}).get("length", 0))


def _run(model: nn.Module, ids: torch.Tensor, **kwargs: Any) -> Any:
    with torch.no_grad():
        return model(input_ids=ids, use_cache=True, **kwargs)


class Cached(nn.Module):  # type: ignore[misc]  # torch is not installed where types are checked
    """A language model as a function of tensors: its named inputs, then the keys and values of each layer.

    It returns the logits, and the keys and values including those of the new columns.
    """

    def __init__(self, model: nn.Module, names: Sequence[str]) -> None:
        """Store a model and the names of its first inputs, which may include ``beam_idx`` and ``position_shift``."""
        super().__init__()
        self.model, self.names = model, names
        self.train(model.training)  # an exporter later sets all modules to the outer module's mode

    def forward(self, *tensors: torch.Tensor) -> tuple[torch.Tensor, ...]:
        """Compute the new columns; the mask covers all columns, including those of the cache."""
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
    """Return the mask added to the scores (batch, 1, new, all): each column attends to itself and earlier real ones.

    The model's own mask uses branches that a tracer would freeze. And if a row attends to nothing, as with padding on
    the left, a runtime's attention may return NaN.
    """
    columns = torch.arange(mask.shape[1])
    seen = columns[None, :] <= columns[mask.shape[1] - new :][:, None]
    seen = seen[None, None] & (mask[:, None, None, :] != 0)
    return torch.where(seen, 0.0, _MASKED)


def make_past(model: nn.Module) -> list[torch.Tensor]:
    """Return keys and values of each layer in turn, for three rows and a few columns."""
    layers = _run(model, torch.ones(3, PAST, dtype=torch.int64)).past_key_values.layers
    return [tensor for layer in layers for tensor in (layer.keys, layer.values)]


def make_examples(limit: int) -> dict[str, torch.Tensor]:
    """Return three rows of new columns after those of the cache; one is padded on the left, as in a real batch."""
    new = max(2, min(12, limit - PAST))
    mask = torch.ones(3, PAST + new, dtype=torch.int64)
    mask[0, :2] = 0
    positions = torch.arange(PAST, PAST + new).repeat(3, 1).clamp(max=limit - 1)
    return {
        IDS: torch.arange(3 * new).reshape(3, new) % 2,
        MASK: mask,
        POSITIONS: positions,
        ORDER: torch.arange(3, dtype=torch.int32),  # OpenVINO fuses cache and attention only for this type
        SHIFT: positions - torch.arange(PAST, PAST + new),
    }


def describe(past: Sequence[torch.Tensor]) -> dict[str, int]:
    """Return the metadata for a cache of these keys and values."""
    return {"layers": len(past) // 2, "heads": past[0].shape[1], "head_size": past[0].shape[3]}


def make_check(model: nn.Module, job: Job) -> tuple[dict[str, np.ndarray[Any, Any]], np.ndarray[Any, Any]]:
    """Return rows for checking a cache, and the model's own logits."""
    feeds = check.make_rows(model.config.get_text_config().vocab_size, find_limit(job))
    with torch.no_grad():
        logits = model(**{name: torch.from_numpy(array) for name, array in feeds.items()}, use_cache=False).logits
    return feeds, logits.numpy()


def is_language_model(job: Job) -> bool:
    """Return whether the source is a model that generates with a cache."""
    return bool(job["input"].get("metadata", {}).get("transformers", {}).get("auto_class") == "AutoModelForCausalLM")
