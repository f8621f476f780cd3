"""One function for each adaptor."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from .blocks import drop_layers
from .compression import compress
from .factorization import factorize
from .pruning import prune_channels
from .quantization import train_quantized
from .replacements import replace_layers
from .sparsity import sparsify
from .students import train_student

STEPS: dict[str, Callable[[dict[str, Any]], dict[str, Any]]] = {
    "compress.replace-layers": partial(compress, change=replace_layers, shrinks=False),
    "compress.prune-channels": partial(compress, change=prune_channels),
    "compress.drop-layers": partial(compress, change=drop_layers),
    "compress.low-rank": partial(compress, change=factorize),
    "compress.sparsify": sparsify,
    "compress.distil": train_student,
    "compress.qat": train_quantized,
}
