"""Arrays in npz files, for workers: the standard library and numpy only."""

from __future__ import annotations

from typing import Any


def read_arrays(path: str) -> dict[str, Any]:
    """Read an npz file into memory, arrays contiguous; never a pickle."""
    import numpy as np

    with np.load(path, allow_pickle=False) as arrays:
        return {name: np.ascontiguousarray(arrays[name]) for name in arrays.files}


def write_arrays(path: str, arrays: dict[str, Any]) -> None:
    """Write an npz file; unlike ``numpy.savez`` with any name of an array. Text becomes numpy's own, no pickle."""
    import zipfile

    import numpy as np

    with zipfile.ZipFile(path, "w", zipfile.ZIP_STORED, allowZip64=True) as archive:
        for name, array in arrays.items():
            with archive.open(name + ".npy", "w", force_zip64=True) as stream:
                found = np.asanyarray(array)
                if found.dtype.kind == "O" and all(isinstance(value, str) for value in found.flat):
                    found = found.astype(str)
                np.lib.format.write_array(stream, found, allow_pickle=False)


def join(values: list[Any]) -> Any:
    """Concatenate the chunks of one output; a single one stays as it is."""
    import numpy as np

    return values[0] if len(values) == 1 else np.concatenate([np.atleast_1d(value) for value in values])
