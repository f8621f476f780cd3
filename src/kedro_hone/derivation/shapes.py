"""The shapes that candidates are measured at, derived from the model's free dimensions and the data's sizes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from hone_runtime.errors import HoneError
from hone_runtime.sessions.shapes import find_fixed_batch
from hone_runtime.values.artifact import Artifact
from kedro_hone.derivation.request import Request

BATCHES: Final = (1, 32)
"""One call for each user, and a batch as servers and jobs collect it."""
_MULTIPLE: Final = 8
"""Lengths are rounded up to a multiple of it, as tokenizers pad for fast kernels."""
Shapes = dict[str, dict[str, int]]


def choose_shapes(request: Request, source: Artifact, feeds: Mapping[str, NDArray[Any]] | None) -> tuple[Shapes, str]:
    """Return the shapes by name, and why, in words.

    Args:
        request: Its shapes take precedence.
        source: The source model; of a fixed number of rows at a call, that is the only batch.
        feeds: The prepared inputs of one split, rows first; None if there are none.

    Raises:
        HoneError: ``task-unclear``: a free dimension has several sizes in the data.
    """
    if request.shapes:
        return {_name(sizes): dict(sizes) for sizes in request.shapes}, "as --shape names them"
    fixed = find_fixed_batch(spec.shape for spec in source.inputs)
    batches = (fixed,) if fixed is not None else BATCHES
    why = "as the model takes no other number of rows" if fixed is not None else "as its number of rows is free"
    free = sorted({dim for spec in source.inputs for dim in spec.shape[1:] if isinstance(dim, str)})
    if not free or feeds is None:
        return {_name({"batch": batch}): {"batch": batch} for batch in batches}, why
    if (lengths := _count_tokens(feeds)) is not None and free == ["length"]:
        low, high = (_round_up(float(np.quantile(lengths, share)), source) for share in (0.5, 0.95))
        sizes = [{"batch": batch, "length": length} for batch, length in zip(batches, (low, high), strict=False)]
        why = f"by the texts' median ({low}) and 95th percentile ({high}) of tokens"
        return {_name(one): one for one in sizes}, why
    known = {dim: _find_size(dim, source, feeds) for dim in free}
    sizes = [{"batch": batch, **known} for batch in batches]
    return {_name(one): one for one in sizes}, f"{why}, and the data's {', '.join(free)}"


def _name(sizes: Mapping[str, int]) -> str:
    return "-".join(f"{dim}{size}".replace("_", "") for dim, size in sizes.items())


def _count_tokens(feeds: Mapping[str, NDArray[Any]]) -> NDArray[Any] | None:
    """Return each row's number of tokens; None if the inputs have no mask of them."""
    mask = feeds.get("attention_mask")
    return None if mask is None or mask.ndim != 2 else mask.sum(axis=1)


def _round_up(length: float, source: Artifact) -> int:
    noted: Any = source.metadata.get("transformers") or {}
    limits: dict[str, int] = noted.get("limits") or {}
    rounded = -(-int(np.ceil(length)) // _MULTIPLE) * _MULTIPLE
    return min(rounded, limits.get("length", rounded))


def _find_size(dim: str, source: Artifact, feeds: Mapping[str, NDArray[Any]]) -> int:
    sizes = sorted(
        {feeds[spec.name].shape[axis] for spec in source.inputs for axis, one in enumerate(spec.shape) if one == dim}
    )
    if len(sizes) == 1:
        return int(sizes[0])
    raise HoneError(
        "task-unclear",
        f"The size of the model's dimension {dim!r} cannot be derived from the data.",
        why=f"The inputs that have it are of the sizes {', '.join(map(str, sizes))}.",
        hint=f"Name it: --shape batch=1,{dim}={sizes[-1] if sizes else 1}.",
    )


def describe_shapes(shapes: Mapping[str, Mapping[str, int]]) -> str:
    """Return the sizes of shapes in words, such as ``batch 1 and batch 32``."""
    texts: Sequence[str] = [", ".join(f"{dim} {size}" for dim, size in sizes.items()) for sizes in shapes.values()]
    return " and ".join(texts) if all(len(sizes) == 1 for sizes in shapes.values()) else "; ".join(texts)
