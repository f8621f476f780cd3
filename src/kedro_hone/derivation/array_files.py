"""Files of arrays (``.npz``, ``.npy``), with one entry for each row on the first axis."""

from __future__ import annotations

import zipfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hone_runtime.values.samples import DRAWN
from kedro_hone.derivation.kinds import find_kind
from kedro_hone.derivation.rows import Table, check_counts, find_unreadable

Arrays = Mapping[str, NDArray[Any]]

_FAULTS = (ValueError, OSError, EOFError, KeyError, zipfile.BadZipFile)


@dataclass(frozen=True)
class ArrayContent:
    """The arrays by name."""

    arrays: Arrays

    def write(self, splits: Mapping[str, Sequence[int]], folder: Path) -> dict[str, Path]:
        """Write ``.npz`` files: they contain the names of the arrays, which ``.npy`` files have as their own."""
        made = {}
        for name, rows in splits.items():
            made[name] = folder / f"{name}.npz"
            with zipfile.ZipFile(made[name], "w") as archive:  # np.savez takes no array with the name `file`
                for key, array in self.arrays.items():
                    with archive.open(f"{key}.npy", "w", force_zip64=True) as stream:
                        np.lib.format.write_array(stream, array[np.asarray(rows)], allow_pickle=False)
        return made


def read_arrays(*paths: Path, path: Path | None = None) -> Table:
    """Read ``.npz`` files, one after another, or ``.npy`` files next to each other, each with the name of its file.

    Args:
        paths: The files, all of one format.
        path: The folder in which they are; the file itself by default.

    Raises:
        HoneError: ``data-unreadable`` or ``data-empty``.
    """
    place = path or paths[0]
    parts = [_load(file) for file in paths]
    if any(DRAWN in part for part in parts):
        why = "Its inputs were drawn at random by `kedro-hone optimize --no-data`: they prove nothing."
        raise find_unreadable(place, why, "Give real rows: --data FILE.")
    if paths[0].suffix.lower() == ".npy":
        parts = [{name: array for part in parts for name, array in part.items()}]
    for file, part in zip(paths, parts, strict=False):
        for name, array in part.items():
            if not array.ndim:
                why = f"{name!r} is one number, and not one for each row."
                raise find_unreadable(file, why, "Write arrays with one entry for each row, on their first axis.")
        if part.keys() != parts[0].keys():
            raise find_unreadable(file, "It has other arrays than the first file.", "Give all files the same arrays.")
    counts = [check_counts(place, {name: len(array) for name, array in part.items()}) for part in parts]
    arrays = (
        parts[0] if len(parts) == 1 else {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}
    )
    kinds = {name: find_kind(array) for name, array in arrays.items()}
    return Table(place, arrays, kinds, sum(counts), ArrayContent(arrays))


def _load(path: Path) -> dict[str, NDArray[Any]]:
    try:
        if path.suffix.lower() == ".npy":
            return {path.stem: np.load(path, allow_pickle=False)}
        with path.open("rb") as stream, np.load(stream, allow_pickle=False) as archive:
            return dict(archive)
    except _FAULTS as error:
        said = (str(error).strip().splitlines() or [type(error).__name__])[0]
        pickled = "Object arrays" in said
        hint = "Write text as array.astype(str): arrays of objects are pickles, which are never loaded."
        raise find_unreadable(path, f"{said}.", hint if pickled else "Write it again with np.savez.") from error
