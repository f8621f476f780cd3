"""Text encoders specialized for some lengths: rows are padded to one of these, and results cut back."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from hone_runtime.interfaces.tensors import Arrays, Run
from hone_runtime.values.artifact import Artifact

LENGTH: Final = "length"
MASK: Final = "attention_mask"

INDIFFERENT: Final = frozenset(
    (
        *("albert", "bert", "camembert", "deberta", "deberta-v2", "distilbert", "electra", "modernbert", "mpnet"),
        *("roberta", "xlm-roberta"),
    )
)
"""Encoders (their ``model_type``) whose results for real tokens do not depend on padding that the mask hides.

An encoder is not in this list if it mixes positions without the mask (convolutions, Fourier transforms, state
spaces), or if its head reads the last position.
"""


def serve_any_length(run: Run, artifact: Artifact) -> Run:
    """Return a function for any length up to the largest, given one for the static shapes.

    Only for ``INDIFFERENT`` encoders with a mask; for all others the same function is returned. Padding has mask 0, the
    padding token, and type 0. Longer rows are passed on to the function, which refuses them.
    """
    lengths = sorted({shape.sizes[LENGTH] for shape in artifact.static_shapes if LENGTH in shape.sizes})
    about = artifact.metadata.get("transformers") or {}
    config: dict[str, Any] = about.get("config") or {}
    axes = {
        spec.name: spec.shape.index(LENGTH) for spec in (*artifact.inputs, *artifact.outputs) if LENGTH in spec.shape
    }
    if not lengths or config.get("model_type") not in INDIFFERENT or MASK not in axes:
        return run
    fillings = {"input_ids": config.get("pad_token_id") or 0}
    axis = axes[MASK]

    def serve(feeds: Arrays) -> Arrays:
        length = feeds[MASK].shape[axis]
        larger = next((one for one in lengths if one >= length), length)
        if larger == length:
            return run(feeds)
        padded = {
            name: _pad(array, axes[name], larger - length, fillings.get(name, 0)) if name in axes else array
            for name, array in feeds.items()
        }
        return {
            name: array.take(range(length), axis=axes[name]) if name in axes else array
            for name, array in run(padded).items()
        }

    return serve


def _pad(array: np.ndarray[Any, Any], axis: int, more: int, value: int) -> np.ndarray[Any, Any]:
    widths = [(0, more if number == axis else 0) for number in range(array.ndim)]
    return np.pad(array, widths, constant_values=value)
