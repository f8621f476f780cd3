"""Files of ordinary Kedro datasets, such as ``pandas.CSVDataset``, as data.

What such a dataset loads is an object of Python, without a pinned content. So its file is read instead, as it is.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path, PurePosixPath
from typing import Any, Final

from fsspec import AbstractFileSystem
from fsspec.implementations.local import LocalFileSystem
from kedro.io import AbstractDataset, CachedDataset, CatalogProtocol, DatasetError

from hone_runtime.text import hide_secrets
from hone_runtime.values.samples import TrackedFile
from kedro_hone.datasets.copies import cache_copy, explain_change, explain_missing
from kedro_hone.datasets.errors import DataError
from kedro_hone.derivation.entries import write_entry
from kedro_hone.programs.worker.formats import FORMATS

_CACHE: Final = "data/hone/files"
_HARMLESS: Final[Mapping[str, Any]] = {"engine": "pyarrow"}
"""Options of loading that do not change what is read."""


def load_split(catalog: CatalogProtocol[Any, Any], name: str, *, project: Path) -> TrackedFile:
    """Return a split of the data from the catalog, whatever the dataset of its entry is.

    Raises:
        DataError: ``data-unreadable``: it is no file that a program reads; as the dataset's own ``load``.
    """
    dataset = _find_dataset(catalog, name)
    if not _has_file(dataset):
        value = catalog.load(name)
        if isinstance(value, TrackedFile):
            return value
    return _read_file(dataset, name, project=project)


def _read_file(dataset: AbstractDataset[Any, Any], name: str, *, project: Path) -> TrackedFile:
    """Return a copy of the file of a dataset."""
    check_file(dataset, name)
    files, path = _locate(dataset)
    inside = isinstance(files, LocalFileSystem) and Path(path).is_relative_to(project)
    source = Path(path).relative_to(project).as_posix() if inside else hide_secrets(files.unstrip_protocol(path))
    place, digest = cache_copy(files, path, name=source, cache=project / _CACHE)
    return TrackedFile(path=str(place), source=source, sha256=digest)


class OrdinaryFileDataset(AbstractDataset[None, TrackedFile]):
    """The file of an ordinary dataset, in its place in the catalog of a run: Kedro then loads no object from it.

    Args:
        dataset: The dataset of the user's entry.
        name: The entry's name.
        project: The project's root.
    """

    def __init__(self, *, dataset: AbstractDataset[Any, Any], name: str, project: Path) -> None:
        self._dataset, self._name, self._project = dataset, name, project

    def load(self) -> TrackedFile:
        """Return a verified copy of the file."""
        return _read_file(self._dataset, self._name, project=self._project)

    def save(self, data: None) -> None:
        """Save by the user's dataset."""
        self._dataset.save(data)

    def _exists(self) -> bool:
        return self._dataset.exists()

    def _describe(self) -> dict[str, Any]:
        return dict(self._dataset._describe())  # noqa: SLF001 - the same class


def pin_entries(
    catalog: CatalogProtocol[Any, Any], names: Iterable[str], *, shared: Collection[str], project: Path
) -> None:
    """Refuse entries whose data no program reads, before Kedro loads anything by them; let the others give their file.

    Args:
        catalog: The catalog of a run.
        names: The data that kedro-hone's nodes read.
        shared: Those that other nodes of the run use as well, and which keep their dataset.
        project: The project's root.

    Raises:
        DataError: ``data-unreadable``.
    """
    for name in names:
        dataset = _find_dataset(catalog, name) if name in catalog else None
        if dataset is None or not _has_file(dataset):
            continue
        check_file(dataset, name)
        if name not in shared:
            with _hide_replacement():
                catalog[name] = OrdinaryFileDataset(dataset=dataset, name=name, project=project)


@contextmanager
def _hide_replacement() -> Iterator[None]:
    """Hide Kedro's warning of a replaced entry: the user's file is read as before."""
    logger = logging.getLogger("kedro.io.data_catalog")
    before, logger.disabled = logger.disabled, True
    try:
        yield
    finally:
        logger.disabled = before


def check_file(dataset: AbstractDataset[Any, Any], name: str) -> None:
    """Raise ``data-unreadable`` if the dataset has no file, or not one that a program reads as it is."""
    kind, path = type(dataset).__name__, str(getattr(dataset, "_filepath", "") or "")
    suffix = PurePosixPath(path).suffix
    if not path:
        why = f"A {kind} has no file of its own, and only files can be pinned by their content."
    elif suffix not in FORMATS:
        why = f"The file of this {kind} ends in {suffix or 'nothing'}; programs read {', '.join(FORMATS)}."
    elif changed := _list_changes(dataset):
        why = f"Its load_args ({', '.join(changed)}) change what is read, and programs read the file as it is."
    else:
        return
    raise DataError(
        "data-unreadable",
        f"The entry {name!r} of the catalog is no data that kedro-hone reads.",
        why=why,
        hint=f"Save the split in one of these formats, and write `{write_entry(name)}`.",
    )


def check_unchanged(first: TrackedFile, now: TrackedFile) -> None:
    """Raise ``data-modified`` if data have another content than when this run first read them."""
    if first.content != now.content:
        raise explain_change(now.source, why=f"This run first read {first.content}, and now it has {now.content}.")


def _has_file(dataset: AbstractDataset[Any, Any]) -> bool:
    """Return whether it is an ordinary dataset of one file; kedro-hone's own datasets pin their data themselves."""
    return bool(getattr(dataset, "_filepath", None)) and not type(dataset).__module__.startswith("kedro_hone.")


def _find_dataset(catalog: CatalogProtocol[Any, Any], name: str) -> AbstractDataset[Any, Any]:
    """Return the dataset of an entry, or the one that Kedro's ``CachedDataset`` wraps.

    Raises:
        DataError: ``data-unreadable``: its class is not installed, or refuses its arguments.
    """
    try:
        dataset: Any = catalog[name]
    except DataError:
        raise
    except DatasetError as error:
        hint = f"Install what its type needs, or write `{write_entry(name)}`."
        what = f"The entry {name!r} of the catalog cannot be used."
        raise DataError("data-unreadable", what, why=str(error), hint=hint) from error
    found: AbstractDataset[Any, Any] = dataset._dataset if isinstance(dataset, CachedDataset) else dataset  # noqa: SLF001
    return found


def _list_changes(dataset: AbstractDataset[Any, Any]) -> list[str]:
    """Return the options of loading that a program would not apply, by name."""
    given: Mapping[str, Any] = getattr(dataset, "_load_args", None) or {}
    usual: Mapping[str, Any] = {**_HARMLESS, **(getattr(type(dataset), "DEFAULT_LOAD_ARGS", None) or {})}
    return sorted(key for key, value in given.items() if key not in usual or usual[key] != value)


def _locate(dataset: Any) -> tuple[AbstractFileSystem, str]:
    """Return the file system and the path of a dataset's file; of a versioned one, that of the version it loads."""
    find = getattr(dataset, "_get_load_path", None)
    try:
        path = str(find() if find is not None else dataset._filepath)  # noqa: SLF001 - Kedro offers no other way
    except DatasetError as error:  # a versioned one without a version
        raise explain_missing(str(dataset._filepath), error) from error  # noqa: SLF001 - as above
    files = getattr(dataset, "_fs", None)
    if getattr(dataset, "_protocol", "file") in {"file", "local"} or files is None:
        return LocalFileSystem(), str(Path(path).absolute())
    return files, path
