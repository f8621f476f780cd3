"""Read the file or the directory of a split as arrays: nothing in it is executed, and unpacking is limited.

What a column, a number or a missing value is, is decided here only: the derivation of splits imports this module.
"""

from __future__ import annotations

import json
import zipfile
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, TextIO

import numpy as np

from hone_runtime.interfaces.texts import is_missing

from .errors import ReportedError
from .splits import Array

FORMATS = (".npz", ".npy", ".csv", ".parquet", ".jsonl", ".ndjson")
"""The suffixes of the files that programs read."""
STATE, DICTIONARY = "state.json", "dataset_dict.json"  # written by datasets.save_to_disk, for one split and for several
MISSING = frozenset(
    {"", "#N/A", "#N/A N/A", "#NA", "-1.#IND", "-1.#QNAN", "-NaN", "-nan", "1.#IND", "1.#QNAN", "<NA>"}
    | {"N/A", "NA", "NULL", "NaN", "None", "n/a", "nan", "null"}
)
"""The cells of a ``.csv`` file that are missing in columns of numbers and truth values; in text only the first is."""

_WHOLE = 2**53  # up to here float64 represents every integer

_FAULTS = (ValueError, OSError, EOFError, KeyError, RecursionError, MemoryError, zipfile.BadZipFile)


def read_arrays(path: Path) -> dict[str, Array]:
    """Read a split, and return its arrays by name, rows first.

    It is a ``.npz`` (arrays by name), ``.npy`` (one array, by the file's name), ``.csv``, ``.parquet``, ``.jsonl`` or
    ``.ndjson`` file (columns by name), a directory that ``datasets.save_to_disk`` wrote, or a directory of files of one
    of these kinds. ``.npy`` files in it are one array each, the others are parts, in the order of their names. Columns
    of lists are arrays of Python lists.

    Raises:
        ReportedError: ``data-unreadable``; ``data-empty`` for lines of JSON without an object.
    """
    if path.is_dir():
        return _read_folder(path)
    if path.suffix not in FORMATS:
        raise _unreadable(path, f"{path.suffix or 'no suffix'} is none of {', '.join(FORMATS)}")
    try:
        return _read_file(path)
    except ReportedError:
        raise
    except ImportError as error:
        needs = f"{path.suffix} needs a package that is not installed: {error}; pip install pyarrow"
        raise _unreadable(path, needs) from error
    except _FAULTS as error:
        raise _unreadable(path, (str(error).strip().splitlines() or [type(error).__name__])[0]) from error


def _read_file(path: Path) -> dict[str, Array]:
    if path.suffix == ".npy":
        return {path.stem: np.load(path, allow_pickle=False)}
    if path.suffix == ".npz":
        return load_npz(path)
    if path.suffix in {".jsonl", ".ndjson"}:
        return _read_lines(path)
    import pandas as pd  # noqa: PLC0415 - only these formats need it

    frame = read_csv(path) if path.suffix == ".csv" else pd.read_parquet(path)
    return {str(name): make_array(frame[name]) for name in frame.columns}


def read_csv(file: Path | TextIO) -> Any:
    """Return the columns of a ``.csv`` file as a table of pandas.

    ``MISSING`` words are missing numbers, but text in columns of text.
    """
    import pandas as pd  # noqa: PLC0415 - only this format needs it

    # With low_memory the type of a column would be inferred chunk by chunk.
    frame = pd.read_csv(file, low_memory=False, keep_default_na=False, na_values=sorted(MISSING))
    places = [at for at in range(frame.shape[1]) if is_text(frame.iloc[:, at])]
    if places:
        if not isinstance(file, Path):
            file.seek(0)
        words = pd.read_csv(file, usecols=places, dtype=object, keep_default_na=False, na_values=[""])
        for at, name in zip(places, words.columns, strict=True):
            frame.isetitem(at, words[name])
    return frame


def is_text(column: Any) -> bool:
    """Return whether a column of pandas is text: one of its values is."""
    return column.dtype.kind not in "biufcmM" and any(isinstance(value, str) for value in column)


def make_array(column: Any) -> Array:
    """Return a column of pandas as an array: nullable types become those of NumPy, with NaN for a missing number."""
    plain = isinstance(column.dtype, np.dtype) and column.dtype.kind != "O"
    if plain or column.dtype.kind in "mM":
        return np.asarray(column.to_numpy())
    if column.dtype.kind in "biuf" and not column.isna().any():
        return np.asarray(column.to_numpy(dtype=f"{column.dtype.kind}{column.dtype.itemsize}"))
    values = np.asarray(column.to_numpy(dtype=object))
    return make_column([None if is_missing(value) else value for value in values])


def load_npz(path: Path | str) -> dict[str, Array]:
    """Return the arrays of an npz file by name."""
    # numpy leaves the file open if the archive is damaged
    with Path(path).open("rb") as stream, np.load(stream, allow_pickle=False) as archive:
        return dict(archive)


def parse_lines(lines: Iterable[str]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield each line that is not blank, without white space around it, and its JSON object.

    Raises:
        ValueError: A line is something else, with its number.
    """
    for number, text in enumerate(lines, 1):
        line = text.strip()
        if not line:
            continue
        try:
            row = json.loads(line)
        except (ValueError, RecursionError) as error:
            raise ValueError(f"line {number} is not JSON: {error}") from error
        if not isinstance(row, dict):
            raise ValueError(f"line {number} is not a JSON object")  # noqa: TRY004 - a fault of the data
        yield line, row


def _read_lines(path: Path) -> dict[str, Array]:
    """Return the columns of a file with one JSON object on each line; a missing value is None."""
    with path.open(encoding="utf-8") as lines:
        rows = [row for _, row in parse_lines(lines)]
    if not rows:
        raise ReportedError("data-empty", f"{path.name} has no rows.", "it contains no JSON object")
    names = dict.fromkeys(name for row in rows for name in row)
    return {name: make_column([row.get(name) for row in rows]) for name in names}


def make_column(values: list[Any]) -> Array:
    """Return one value for each row as an array: of numbers if all are numbers or missing, otherwise of objects.

    A missing number or truth value is NaN, as in a ``.csv`` file, unless there are integers that float64 cannot
    represent.
    """
    if values and all(isinstance(value, bool | int | float) for value in values):
        return np.asarray(values)
    known = [value for value in values if value is not None]
    if known and all(_is_number(value) for value in known):
        return np.asarray([np.nan if value is None else value for value in values], dtype=np.float64)
    column = np.empty(len(values), dtype=object)
    column[:] = values
    return column


def _is_number(value: Any) -> bool:
    """Return whether a value is a number, or a truth value, that float64 can represent."""
    return isinstance(value, float) or (isinstance(value, int) and abs(value) <= _WHOLE)


def _read_folder(path: Path) -> dict[str, Array]:
    if (path / STATE).is_file():
        return _read_dataset(path)
    if (path / DICTIONARY).is_file():
        raise _unreadable(path, f"it has several splits ({DICTIONARY}); name the folder of one of them")
    files = sorted(file for file in path.rglob("*") if file.suffix in FORMATS)
    suffixes = {file.suffix for file in files}
    if len(suffixes) != 1:
        kinds = " and ".join(sorted(suffixes)) or "none"
        raise _unreadable(path, f"the directory holds {kinds} of {', '.join(FORMATS)}; one is needed")
    parts = [read_arrays(file) for file in files]
    if suffixes == {".npy"}:
        return {name: array for part in parts for name, array in part.items()}
    for file, part in zip(files, parts, strict=True):
        if set(part) != set(parts[0]):
            raise _unreadable(path, f"{file.name} has other names inside")
    return {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}


def _read_dataset(path: Path) -> dict[str, Array]:
    """Return the columns of a folder that ``datasets.save_to_disk`` wrote: Arrow streams, listed in ``state.json``.

    They are read without ``datasets``, which may run code of a data set.
    """
    try:
        batches = [*read_batches(path)]
        if not batches:
            raise ValueError("it has no rows")
        columns = batches[0].schema.names
        if any(batch.schema.names != columns for batch in batches):
            raise ValueError("its files have other columns")
        return {
            name: np.concatenate([_read_column(batch.column(at)) for batch in batches])
            for at, name in enumerate(columns)
        }
    except ImportError as error:
        raise _unreadable(path, f"a datasets folder needs pyarrow: pip install pyarrow ({error})") from error
    except (*_FAULTS, TypeError) as error:
        raise _unreadable(path, (str(error).strip().splitlines() or [type(error).__name__])[0]) from error


def read_batches(path: Path) -> Iterator[Any]:
    """Yield the batches of Arrow in a folder that ``datasets.save_to_disk`` wrote.

    Raises:
        ValueError: Its rows are chosen by indices, or it names a file elsewhere; as Arrow and JSON.
    """
    state = json.loads((path / STATE).read_text(encoding="utf-8"))
    names = [entry["filename"] for entry in state["_data_files"]]
    if state.get("_indices_data_files"):
        raise ValueError("its rows are chosen by a list of indices; save it with flatten_indices()")
    if any(not isinstance(name, str) or Path(name).name != name for name in names):
        raise ValueError(f"{STATE} names a file that is not in the folder")
    for name in names:
        yield from _read_stream(path / name)


def _read_stream(path: Path) -> Iterator[Any]:
    """Yield the batches of an Arrow stream; columns must not be larger than the file, as compressed ones could be."""
    from pyarrow import ipc, memory_map  # noqa: PLC0415 - only this format needs it

    size, read = path.stat().st_size, 0
    with memory_map(str(path)) as stream, ipc.open_stream(stream) as reader:
        for batch in reader:
            read += batch.nbytes
            if read > size:
                raise ValueError(f"the columns of {path.name} are larger than the file")
            yield batch


def _read_column(column: Any) -> Array:
    """Return a column of Arrow as an array: numbers unchanged, anything else as Python's own values."""
    from pyarrow import types  # noqa: PLC0415 - only this format needs it

    plain = types.is_integer(column.type) or types.is_floating(column.type) or types.is_boolean(column.type)
    if plain and not column.null_count:
        return np.asarray(column.to_numpy(zero_copy_only=False))
    if types.is_list(column.type) or types.is_large_list(column.type) or types.is_fixed_size_list(column.type):
        inner = column.type.value_type
        if types.is_floating(inner) or types.is_integer(inner):  # such as samples of speech: not as a list of Python's
            rows = np.empty(len(column), dtype=object)
            rows[:] = [None if row.values is None else row.values.to_numpy(zero_copy_only=False) for row in column]
            return rows
    return make_column(column.to_pylist())


def _unreadable(path: Path, why: str) -> ReportedError:
    return ReportedError("data-unreadable", f"{path.name} cannot be read.", why)
