"""Files of Arrow: ``.parquet``, and folders that ``datasets.save_to_disk`` wrote."""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from kedro_hone.derivation.kinds import find_kind
from kedro_hone.derivation.rows import Column, Table, check_counts, find_unreadable
from kedro_hone.programs.worker.formats import STATE, read_batches

_INFO: Final = "dataset_info.json"
_DATA: Final = "data-00000-of-00001.arrow"


@dataclass(frozen=True)
class ParquetContent:
    """A table of Arrow, which is written as Parquet."""

    table: Any

    def write(self, splits: Mapping[str, Sequence[int]], folder: Path) -> dict[str, Path]:
        """Write ``.parquet`` files with the types of the source."""
        from pyarrow import parquet  # noqa: PLC0415 - only this format needs it

        made = {name: folder / f"{name}.parquet" for name in splits}
        for name, rows in splits.items():
            parquet.write_table(self.table.take(rows), made[name])
        return made


@dataclass(frozen=True)
class DatasetContent:
    """A table of Arrow, which is written as ``datasets.save_to_disk`` does."""

    table: Any
    info: Path

    def write(self, splits: Mapping[str, Sequence[int]], folder: Path) -> dict[str, Path]:
        """Write a folder for each split, with the types of the source."""
        from pyarrow import OSFile, ipc  # noqa: PLC0415 - only this format needs it

        made = {name: folder / name for name in splits}
        for name, rows in splits.items():
            made[name].mkdir(exist_ok=True)
            with OSFile(str(made[name] / _DATA), "wb") as sink, ipc.new_stream(sink, self.table.schema) as stream:
                stream.write_table(self.table.take(rows).combine_chunks())
            state = {"_data_files": [{"filename": _DATA}], "_indices_data_files": None, "_split": name}
            (made[name] / STATE).write_text(json.dumps(state), encoding="utf-8")
            if self.info.is_file():
                shutil.copyfile(self.info, made[name] / _INFO)
        return made


def read_parquet(*paths: Path, path: Path | None = None) -> Table:
    """Read ``.parquet`` files, one after another.

    Args:
        paths: The files.
        path: The folder in which they are; the file itself by default.

    Raises:
        HoneError: ``data-unreadable`` or ``data-empty``.
    """
    place = path or paths[0]
    try:
        import pyarrow as pa  # noqa: PLC0415 - only this format needs it
        from pyarrow import parquet  # noqa: PLC0415

        table = pa.concat_tables([parquet.ParquetFile(file).read() for file in paths])
    except (ImportError, OSError, ValueError, KeyError) as error:
        raise _explain(place, error) from error
    return _make_table(place, table, ParquetContent(table), indices=_list_indices(table))


def read_dataset(path: Path) -> Table:
    """Read a folder that ``datasets.save_to_disk`` wrote, without running code of it.

    Raises:
        HoneError: ``data-unreadable`` or ``data-empty``.
    """
    try:
        import pyarrow as pa  # noqa: PLC0415 - only this format needs it

        batches = [*read_batches(path)]
        check_counts(path, {"": sum(batch.num_rows for batch in batches)})
        table = pa.Table.from_batches(batches)
    except (ImportError, OSError, ValueError, KeyError, TypeError) as error:
        raise _explain(path, error) from error
    return _make_table(path, table, DatasetContent(table, path / _INFO))


def _explain(path: Path, error: Exception) -> Exception:
    said = (str(error).strip().splitlines() or [type(error).__name__])[0]
    missing = isinstance(error, ImportError)
    hint = "pip install pyarrow" if missing else "Write the file again; it is damaged, or of another format."
    return find_unreadable(path, f"{said.rstrip('.')}.", hint)


def _make_table(
    path: Path, table: Any, content: ParquetContent | DatasetContent, *, indices: frozenset[str] = frozenset()
) -> Table:
    names = table.schema.names
    if len(set(names)) < len(names):
        raise find_unreadable(path, "Two of its columns have the same name.", "Give each column a name of its own.")
    columns = {name: _read_column(table.column(name)) for name in names if name not in indices}
    check_counts(path, {"": table.num_rows})
    kinds = {name: find_kind(column) for name, column in columns.items()}
    notes = tuple(f"{name!r} is the index of a pandas table, and left out" for name in names if name in indices)
    return Table(path, columns, kinds, table.num_rows, content, notes)


def _list_indices(table: Any) -> frozenset[str]:
    """Return the columns that pandas reads as an index, so that no program gets them."""
    stored = table.schema.pandas_metadata or {}
    return frozenset(name for name in stored.get("index_columns", ()) if isinstance(name, str))


def _read_column(column: Any) -> Column:
    from pyarrow import types  # noqa: PLC0415 - only this format needs it

    plain = types.is_integer(column.type) or types.is_floating(column.type)
    values: Column = column.to_numpy() if plain and not column.null_count else column.to_pylist()
    return values
