"""Folders of pictures: one file for each row, in a folder with the name of its class."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, overload

from kedro_hone.derivation.rows import Column, Kind, Table, find_unreadable
from kedro_hone.programs.shared.classes import LABELS

SUFFIXES: Final = frozenset({".png", ".jpg", ".jpeg", ".bmp", ".gif", ".webp", ".tif", ".tiff"})
IMAGES, LABEL = "images", LABELS[1]
"""The names of the columns, as the program image-classification finds them."""


@dataclass(frozen=True)
class Pictures(Sequence[bytes]):
    """The content of files, which is read when it is taken."""

    paths: tuple[Path, ...]

    def __len__(self) -> int:
        return len(self.paths)

    @overload
    def __getitem__(self, row: int) -> bytes: ...
    @overload
    def __getitem__(self, row: slice) -> Pictures: ...
    def __getitem__(self, row: int | slice) -> bytes | Pictures:
        return Pictures(self.paths[row]) if isinstance(row, slice) else self.paths[row].read_bytes()


@dataclass(frozen=True)
class PictureContent:
    """The files, and the class of each; None if they are not in folders of classes."""

    pictures: Pictures
    labels: tuple[str, ...] | None

    def write(self, splits: Mapping[str, Sequence[int]], folder: Path) -> dict[str, Path]:
        """Write ``.parquet`` files with the unchanged content of each picture."""
        import pyarrow as pa  # noqa: PLC0415 - only this format needs it
        from pyarrow import parquet  # noqa: PLC0415

        made = {name: folder / f"{name}.parquet" for name in splits}
        for name, rows in splits.items():
            columns: dict[str, Column] = {IMAGES: [self.pictures[row] for row in rows]}
            if self.labels is not None:
                columns[LABEL] = [self.labels[row] for row in rows]
            parquet.write_table(pa.table(columns), made[name], compression="none")
        return made


def list_pictures(folder: Path) -> list[Path]:
    """Return the pictures in a folder and those below it, in the order of their names."""
    return sorted(path for path in folder.rglob("*") if path.suffix.lower() in SUFFIXES and path.is_file())


def read_pictures(paths: Sequence[Path], folder: Path) -> Table:
    """Return pictures as a table with the columns ``images`` and, if they are in folders of classes, ``label``.

    Args:
        paths: The pictures.
        folder: The folder that was named; a picture in a folder below it has the name of its own folder as its class.

    Raises:
        HoneError: ``data-unreadable`` if only some are in folders of classes, or pyarrow is not installed.
    """
    try:
        import pyarrow  # noqa: F401, ICN001, PLC0415 - before hours are spent; their splits are files of Parquet
    except ImportError as error:
        raise find_unreadable(folder, f"{error}.", "pip install pyarrow") from error
    pictures = Pictures(tuple(paths))
    loose = [path for path in paths if path.parent == folder]
    if loose and len(loose) < len(paths):
        why = f"{loose[0].name} is in no folder of a class, and {paths[-1].relative_to(folder)} is in one."
        raise find_unreadable(folder, why, "Put all pictures into folders with the names of their classes.")
    if loose:
        return Table(folder, {IMAGES: pictures}, {IMAGES: "other"}, len(paths), PictureContent(pictures, None))
    labels = tuple(path.parent.name for path in paths)
    names = sorted(set(labels))
    shown = ", ".join(names[:5]) + (f" and {len(names) - 5} more" if len(names) > 5 else "")
    note = f"`{LABEL}` is the folder of each picture: {shown}"
    kinds: dict[str, Kind] = {IMAGES: "other", LABEL: "text"}
    columns: dict[str, Column] = {IMAGES: pictures, LABEL: labels}
    return Table(folder, columns, kinds, len(paths), PictureContent(pictures, labels), (note,))
