"""The source's outputs on the training split: computed in parts, so that no process has all of them in memory."""

from __future__ import annotations

import zipfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np

from hone_runtime.errors import HoneError
from kedro_hone.search.comparison.arrays import UNREADABLE, open_arrays, read_arrays
from kedro_hone.search.scores import Run

MOST_BYTES: Final = 16 << 30
"""The largest size of the outputs: they are stored, and read from disk in each epoch."""
PART_BYTES: Final = 1 << 30
"""The largest size of the outputs of one run: a worker has them in memory twice."""


def list_runs(rows: Path, output: Path, *, count: int, batch: int, row_bytes: float) -> Iterator[Run]:
    """Yield the runs of the source on the training split; after the last, all outputs are in one file.

    Args:
        rows: The rows of the split.
        output: The new file; the parts are next to it.
        count: The number of rows.
        batch: The batch size.
        row_bytes: The size of a row's outputs.

    Raises:
        HoneError: ``training-too-large``, before anything is run; ``model-unsupported``: the outputs of the parts do
            not fit together.
    """
    if count * row_bytes > MOST_BYTES:
        size, most = (f"{one / (1 << 30):,.1f} GiB" for one in (count * row_bytes, MOST_BYTES))
        row = f"{row_bytes / (1 << 20):,.1f} MiB"
        raise HoneError(
            "training-too-large",
            f"The source's outputs for the training split would take {size}.",
            why=f"It has {count:,} rows, with outputs of {row} each; at most {most} are stored.",
            hint=f"Take a training split of at most {int(MOST_BYTES / row_bytes):,} rows, or shorten the rows.",
        )
    step = max(batch, int(PART_BYTES / max(row_bytes, 1)) // batch * batch)
    if step >= count:
        yield rows, output, batch
        return
    arrays, parts = read_arrays(rows), list[Path]()
    for start in range(0, count, step):
        feeds, part = (output.with_name(f"{output.stem}-{kind}-{start}.npz") for kind in ("rows", "part"))
        np.savez(feeds, allow_pickle=False, **{name: array[start : start + step] for name, array in arrays.items()})
        yield feeds, part, batch
        feeds.unlink()
        parts.append(part)
    _join(parts, output)


def _join(parts: Sequence[Path], output: Path) -> None:
    """Write the arrays of all parts into one file, one part after the other, and remove the parts."""
    try:
        headers = [_read_headers(part) for part in parts]
        with zipfile.ZipFile(output, "w", zipfile.ZIP_STORED) as archive:
            for name, (shape, dtype) in headers[0].items():
                found = [header[name] for header in headers]
                if any(one[1] != dtype or one[0][1:] != shape[1:] or not one[0] for one in found):
                    raise ValueError(
                        f"the output {name!r} has {shape} and {dtype} for some rows, and others for others"
                    )
                total = {"shape": (sum(one[0][0] for one in found), *shape[1:]), "fortran_order": False}
                with archive.open(f"{name}.npy", "w", force_zip64=True) as stream:
                    np.lib.format.write_array_header_2_0(
                        stream, {**total, "descr": np.lib.format.dtype_to_descr(dtype)}
                    )
                    for part in parts:
                        with open_arrays(part) as arrays:
                            stream.write(np.ascontiguousarray(arrays[name]).data)
    except (*UNREADABLE, KeyError) as error:
        raise HoneError(
            "model-unsupported",
            "The source's outputs for the training split cannot be joined.",
            why=str(error),
            hint="The source must return arrays of one shape for all rows: pad them, or take fewer training rows.",
        ) from error
    for part in parts:
        part.unlink()


def _read_headers(part: Path) -> dict[str, tuple[tuple[int, ...], np.dtype[Any]]]:
    with open_arrays(part) as arrays:
        return {name: (arrays[name].shape, arrays[name].dtype) for name in arrays.files}
