"""Inputs that are drawn at random where there are no data: for a draft, which proves nothing."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from hone_runtime.errors import HoneError
from hone_runtime.values.artifact import Artifact, TensorSpec
from hone_runtime.values.samples import CALIBRATION, GATE, SEARCH
from kedro_hone.derivation.request import Request

Arrays = dict[str, NDArray[Any]]

ROWS: Final[Mapping[str, int]] = {CALIBRATION: 64, SEARCH: 128, GATE: 256}
"""Rows by split: enough to see a conversion that changes results, and quick."""
SEED: Final = 0
_LENGTH: Final = 32
"""Tokens of a drawn text."""


def draw_splits(request: Request, source: Artifact, example: Mapping[str, NDArray[Any]], folder: Path) -> dict[str, Path]:
    """Write an ``.npz`` of drawn inputs for each split, and return the paths.

    Numbers are uniform in the range of the example's, else of the standard normal distribution; token numbers are of
    the model's vocabulary; text is taken from the example.

    Args:
        request: Its first shape gives the sizes of free dimensions.
        source: The model, with the specifications of its inputs.
        example: The model's input example by the names of inputs, rows first; empty if it has none.
        folder: The folder for the files.

    Raises:
        HoneError: ``data-missing``: the model takes text and has no example, or a free dimension has no size.
    """
    generator = np.random.default_rng(SEED)
    folder.mkdir(parents=True, exist_ok=True)
    files = {}
    for split, rows in ROWS.items():
        arrays = {spec.name: _draw(spec, rows, request, source, example, generator) for spec in source.inputs}
        files[split] = folder / f"{split}.npz"
        np.savez(files[split], allow_pickle=False, **arrays)
    return files


def _draw(  # noqa: PLR0913 - each decides what is drawn
    spec: TensorSpec,
    rows: int,
    request: Request,
    source: Artifact,
    example: Mapping[str, NDArray[Any]],
    generator: np.random.Generator,
) -> NDArray[Any]:
    known = example.get(spec.name)
    shape = (rows, *(_find_size(dim, axis, known, request, source, spec) for axis, dim in enumerate(spec.shape) if axis))
    if spec.dtype in {"str", "object"}:
        if known is None or not known.size:
            raise _explain_missing(f"The model's input {spec.name!r} takes text, and it has no example of it.")
        return generator.choice(known.astype(str).ravel(), size=shape)
    dtype = np.dtype(spec.dtype)
    if dtype.kind == "b":
        return generator.integers(0, 2, shape).astype(dtype)
    if dtype.kind in "iu":
        low, high = _find_integers(spec, known, source)
        return generator.integers(low, high, shape, endpoint=True).astype(dtype)
    if known is None or not known.size:
        return generator.normal(size=shape).astype(dtype)
    return generator.uniform(known.min(), known.max(), shape).astype(dtype)


def _find_integers(spec: TensorSpec, known: NDArray[Any] | None, source: Artifact) -> tuple[int, int]:
    """Return the least and the largest whole number of an input."""
    noted: Any = source.metadata.get("transformers") or {}
    if spec.name == "input_ids" and (words := (noted.get("config") or {}).get("vocab_size")):
        return 0, int(words) - 1
    if spec.name.endswith("attention_mask"):
        return 1, 1
    if spec.name == "token_type_ids":
        return 0, 0
    return (0, 1) if known is None or not known.size else (int(known.min()), int(known.max()))


def _find_size(  # noqa: PLR0913 - each may have the size
    dim: int | str, axis: int, known: NDArray[Any] | None, request: Request, source: Artifact, spec: TensorSpec
) -> int:
    if isinstance(dim, int):
        return dim
    if size := next((sizes[dim] for sizes in request.shapes if dim in sizes), None):
        return size
    if known is not None and known.ndim == len(spec.shape):
        return int(known.shape[axis])
    if "transformers" in source.metadata and dim == "length":
        return _LENGTH
    raise _explain_missing(
        f"The dimension {dim!r} of the model's input {spec.name!r} has no size.", f"--shape batch=1,{dim}=SIZE"
    )


def _explain_missing(why: str, flag: str = "--data FILE") -> HoneError:
    what = "Inputs cannot be drawn for this model without data."
    hint = f"Add {flag}; a file of real rows also makes the verdict a proof."
    return HoneError("data-missing", what, why=why, hint=hint)
