"""Inputs that are drawn at random where there are no data: for a draft, which proves nothing."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from hone_runtime.errors import HoneError
from hone_runtime.values.artifact import Artifact, TensorSpec
from hone_runtime.values.samples import CALIBRATION, DRAWN, GATE, SEARCH

ROWS: Final[Mapping[str, int]] = {CALIBRATION: 64, SEARCH: 128, GATE: 256}
"""Rows by split: enough to see a conversion that changes results, and quick."""
SEED: Final = 0
_LENGTH: Final = 32
"""Tokens of a drawn text."""


@dataclass(frozen=True, kw_only=True)
class Drawing:
    """What inputs are drawn from.

    Attributes:
        source: The model, with the specifications of its inputs.
        example: The model's input example by the names of inputs, rows first; empty if it has none.
        sizes: Sizes of free dimensions by name.
    """

    source: Artifact
    example: Mapping[str, NDArray[Any]]
    sizes: Mapping[str, int]

    def draw(self, rows: int, generator: np.random.Generator) -> dict[str, NDArray[Any]]:
        """Return an array for each input of the model.

        Numbers are uniform in the range of the example's, else of the standard normal distribution; token numbers are
        of the model's vocabulary; text is taken from the example.

        Raises:
            HoneError: ``example-missing``: the model takes text and has no example, or a free dimension has no size.
        """
        return {spec.name: self._draw(spec, rows, generator) for spec in self.source.inputs}

    def _draw(self, spec: TensorSpec, rows: int, generator: np.random.Generator) -> NDArray[Any]:
        known = self.example.get(spec.name)
        known = known if known is not None and known.size else None
        shape = (rows, *(self._find_size(spec, axis) for axis in range(1, len(spec.shape))))
        if spec.dtype in {"str", "object"}:
            if known is None:
                raise _explain_missing(f"The model's input {spec.name!r} takes text, and it has no example of it.")
            return generator.choice(known.astype(str).ravel(), size=shape)
        dtype = np.dtype(spec.dtype)
        if dtype.kind in "iub":
            low, high = (0, 1) if dtype.kind == "b" else self._find_integers(spec, known)
            return generator.integers(low, high, shape, endpoint=True).astype(dtype)
        if known is None:
            return generator.normal(size=shape).astype(dtype)
        numbers = known.astype(np.float64)
        return generator.uniform(np.nanmin(numbers), np.nanmax(numbers), shape).astype(dtype)

    def _find_integers(self, spec: TensorSpec, known: NDArray[Any] | None) -> tuple[int, int]:
        """Return the least and the largest whole number of an input."""
        noted: Any = self.source.metadata.get("transformers") or {}
        if spec.name == "input_ids" and (words := (noted.get("config") or {}).get("vocab_size")):
            return 0, int(words) - 1
        if spec.name.endswith("attention_mask"):
            return 1, 1
        if spec.name == "token_type_ids":
            return 0, 0
        return (0, 1) if known is None else (int(known.min()), int(known.max()))

    def _find_size(self, spec: TensorSpec, axis: int) -> int:
        dim, known = spec.shape[axis], self.example.get(spec.name)
        if isinstance(dim, int):
            return dim
        if dim in self.sizes:
            return self.sizes[dim]
        if known is not None and known.ndim == len(spec.shape):
            return int(known.shape[axis])
        if "transformers" in self.source.metadata and dim == "length":
            return _LENGTH
        why = f"The dimension {dim!r} of the model's input {spec.name!r} has no size."
        raise _explain_missing(why, f"--shape batch=1,{dim}=SIZE")


def draw_splits(drawing: Drawing, folder: Path) -> dict[str, Path]:
    """Write an ``.npz`` of drawn inputs for each split to a folder, and return the paths by split.

    Raises:
        HoneError: ``example-missing``.
    """
    generator = np.random.default_rng(SEED)
    folder.mkdir(parents=True, exist_ok=True)
    files = {split: folder / f"{split}.npz" for split in ROWS}
    for split, rows in ROWS.items():
        arrays: dict[str, Any] = {**drawing.draw(rows, generator), DRAWN: np.ones(rows, np.bool_)}
        np.savez(files[split], allow_pickle=False, **arrays)
    return files


def _explain_missing(why: str, flag: str = "--data FILE") -> HoneError:
    what = "Inputs cannot be drawn for this model without data."
    hint = f"Add {flag}; a file of real rows also makes the verdict a proof."
    return HoneError("example-missing", what, why=why, hint=hint)
