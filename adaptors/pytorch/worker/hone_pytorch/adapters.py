"""Weights of adapters, such as LoRA's, in a model's state: its class has no place for them, so they would be lost."""

from __future__ import annotations

import re
from collections.abc import Iterable

MERGE = "merge it where it was trained: model = model.merge_and_unload(), and then model.save_pretrained(folder)"
"""The two lines of PEFT code that merge an adapter, and return a model of the base model's class."""

SLUG = "adapter-unmerged"
"""The host recognizes such a refusal by this text."""
_OF_ADAPTERS = re.compile(
    r"(.*\.)?(lora(_\w+)?|(ia3|hada|lokr|vera|vblora|fourierft|randlora|gralora|delora|waveft)_\w+"
    r"|(oft|boft)_(r|s|blocks)|hra_u|(bone|miss)_block|shira_\w+|c3a_kernel|road_(theta|alpha)|trainable_tokens_\w+"
    r"|base_layer|original_module|modules_to_save|base_model\.model|prompt_(encoder|embeddings?)"
    r"|adaption_(prompt|gate)|ln_tuning_layers|ranknum|adapters|adapter_(up|down))(\..*)?",
    re.IGNORECASE,
)
"""Names in PEFT and similar libraries for the weights of adapters, and for the layers that adapters wrap."""


def list_adapters(names: Iterable[str]) -> list[str]:
    """Return the names that belong to an adapter, sorted."""
    return sorted(name for name in names if _OF_ADAPTERS.fullmatch(name))


class UnmergedError(RuntimeError):
    """A model's state contains weights of an adapter; the message has their names and a remedy."""


def refuse(names: Iterable[str]) -> None:
    """Refuse weights that have no place in a model's class if some belong to an adapter.

    Raises:
        UnmergedError: Some belong to an adapter.
    """
    if found := list_adapters(names):
        raise UnmergedError(_explain(found))


def _explain(names: list[str]) -> str:
    return f"its weights hold an adapter of PEFT ({', '.join(names[:3])}) that is not merged into the model: {MERGE}"
