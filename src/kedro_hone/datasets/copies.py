"""Verified copies of pinned data, each made once and kept under its hash."""

from __future__ import annotations

import tempfile
from pathlib import Path, PurePosixPath
from typing import Any

from kedro_hone.datasets.pins import Pin, Repository, hash_path, locate, report_missing


def keep_copy(files: Any, repository: Repository, *, pin: Pin, cache: Path) -> Path:
    """Return the copy of pinned data in a cache (as ``<md5>/<name>``), made from an opened revision if there is none.

    Its bytes were just compared with the pinned hash; a damaged copy is made again.

    Raises:
        DataError: ``data-not-pulled``.
    """
    target = cache / pin.md5 / PurePosixPath(pin.source).name
    if _is_intact(target, pin):
        return target
    target.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=cache, prefix=".copy-") as folder:
        staged = Path(folder) / target.name
        _fetch(files, repository, pin=pin, staged=staged)
        if target.is_dir():
            target.rename(Path(folder) / "damaged")
        try:
            staged.replace(target)
        except OSError:
            # Another process placed the same directory first; its content is the same.
            if not _is_intact(target, pin):
                raise
    return target


def _is_intact(target: Path, pin: Pin) -> bool:
    return target.exists() and hash_path(target, pin.hash_name) == pin.md5


def _fetch(files: Any, repository: Repository, *, pin: Pin, staged: Path) -> None:
    """Copy pinned data from DVC's cache or remote, verify it, and make it read-only."""
    from dvc.exceptions import DvcException  # noqa: PLC0415 - heavy, and only needed here
    from dvc_data.index import DataIndexDirError  # noqa: PLC0415 - heavy, and only needed here

    try:
        files.get(locate(repository, pin.source), str(staged), recursive=pin.is_directory)
    except (FileNotFoundError, ConnectionError, DvcException, DataIndexDirError) as error:
        raise report_missing(repository, _name(pin), why=str(error)) from error
    found = hash_path(staged, pin.hash_name) if staged.exists() else "nothing"
    if found != pin.md5:
        raise report_missing(repository, _name(pin), why=f"DVC's cache or remote returned other content: {found}.")
    for file in [staged, *staged.rglob("*")]:
        if file.is_file():
            file.chmod(0o444)


def _name(pin: Pin) -> str:
    return f"{pin.source} (md5 {pin.md5}, commit {pin.commit[:12]})"
