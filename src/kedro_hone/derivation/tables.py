"""Tables: one file or folder of data, read as rows, whatever its format."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Final

from hone_runtime.text import suggest
from kedro_hone.derivation import array_files, arrow_files, csv_files, json_files, picture_files
from kedro_hone.derivation.rows import Table, find_unreadable
from kedro_hone.programs.worker import formats

READABLE: Final = (*formats.FORMATS, ".tsv", ".json")
"""The suffixes of the files that can be read, and written in a format of the programs."""

_HINT: Final = f"Name a file with one of {', '.join(READABLE)}, or a folder of such files: --data FILE."


def read_table(path: Path, *, needs: Collection[str] = ()) -> Table:
    """Read one file or folder of data as rows.

    A folder contains files of one format, whose rows come one after another; ``.npy`` files in it are arrays next to
    each other. It may also be a folder that ``datasets.save_to_disk`` wrote, or one of pictures, with a folder for each
    class.

    Args:
        path: The file or folder.
        needs: The columns that the model takes, if they are known; none of them is left out as an index.

    Returns:
        The rows, with notes of what was decided while reading, such as the delimiter of a ``.csv`` file.

    Raises:
        HoneError: ``data-unreadable`` or ``data-empty``.
    """
    if not path.exists():
        others = [file.name for file in path.parent.iterdir()] if path.parent.is_dir() else []
        raise find_unreadable(path, "There is no such file.", suggest(path.name, others) + _HINT)
    if path.is_dir():
        return _read_folder(path, needs)
    return _read_files([path], path, needs)


def _read_folder(path: Path, needs: Collection[str]) -> Table:
    if (path / formats.STATE).is_file():
        return arrow_files.read_dataset(path)
    if (path / formats.DICTIONARY).is_file():
        named = sorted(part.name for part in path.iterdir() if part.is_dir())
        hint = (
            f"Name the folder of one of them, or one for each split: --data gate={path.name}/{(named or ['test'])[0]}."
        )
        raise find_unreadable(path, f"It has several splits: {', '.join(named)}.", hint)
    files = sorted(file for file in path.rglob("*") if file.suffix.lower() in READABLE and file.is_file())
    suffixes = sorted({file.suffix.lower() for file in files})
    if not files and (pictures := picture_files.list_pictures(path)):
        return picture_files.read_pictures(pictures, path)
    if len(suffixes) != 1:
        kinds = " and ".join(suffixes) or "none"
        raise find_unreadable(path, f"The folder has {kinds} of {', '.join(READABLE)}; one is needed.", _HINT)
    return _read_files(files, path, needs)


def _read_files(files: Sequence[Path], path: Path, needs: Collection[str]) -> Table:
    suffix = files[0].suffix.lower()
    if suffix == ".parquet":
        return arrow_files.read_parquet(*files, path=path)
    if suffix in {".npy", ".npz"}:
        return array_files.read_arrays(*files, path=path)
    if suffix in {".csv", ".tsv"}:
        return csv_files.read_csv(*files, path=path, needs=needs)
    if suffix in {".jsonl", ".ndjson", ".json"}:
        return json_files.read_json(*files, path=path)
    why = f"Its suffix {path.suffix!r} is none of {', '.join(READABLE)}." if path.suffix else "It has no suffix."
    raise find_unreadable(path, why, suggest(path.suffix, READABLE) + _HINT)
