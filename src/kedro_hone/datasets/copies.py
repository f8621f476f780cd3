"""Read-only copies of files that nothing versions, in a folder for each content."""

from __future__ import annotations

import shutil
import stat
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path, PurePosixPath

from fsspec import AbstractFileSystem
from fsspec.implementations.local import LocalFileSystem

from hone_runtime.text import hide_secrets
from hone_runtime.values.digest import digest_file, digest_tree
from kedro_hone.datasets.errors import DataError


def cache_copy(files: AbstractFileSystem, path: str, *, name: str, cache: Path) -> tuple[Path, str]:
    """Return a copy of a file or folder in a cache (``<sha256>/<name>``) with the digest ``sha256:…`` of its content.

    The digest is that of the copy. A local file is read twice, so that one that is being written is noticed; of
    a remote one the file system's own mark is compared.

    Args:
        files: The file system, which may be a remote one.
        path: A path in it.
        name: The path for people: relative to the project, or a URL.
        cache: The folder of the copies.

    Raises:
        DataError: ``data-missing``: there is no such file, or the file system fails; ``data-modified``: it changed
            while it was read.
    """
    cache.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=cache, prefix=".copy-") as folder:
        staged = Path(folder) / _name(path)
        with _explain(name):
            before = _mark(files, path)
            _fetch(files, path, staged)
            after = _mark(files, path)
        digest = digest_content(staged)
        if before != after or (isinstance(files, LocalFileSystem) and digest_content(Path(path)) != digest):
            raise explain_change(name, why="It changed while it was read.")
        target = cache / digest.removeprefix("sha256:") / staged.name
        if not is_intact(target, digest):
            _place(staged, target, digest)
        return target, digest


def digest_content(path: Path) -> str:
    """Return ``sha256:…`` of a file's bytes, or of the names and bytes of all files below a folder."""
    return digest_tree(path) if path.is_dir() else digest_file(path)


def is_intact(target: Path, digest: str) -> bool:
    """Return whether a copy exists and still has the content that its digest names."""
    return target.exists() and digest_content(target) == digest


def explain_change(name: str, *, why: str) -> DataError:
    """Return the error for data that are not those that were pinned."""
    hint = "Let nothing write it while a run reads it; start the run again to use what it is now."
    return DataError("data-modified", f"{hide_secrets(name)} was changed.", why=why, hint=hint)


def _name(path: str) -> str:
    return PurePosixPath(path.partition("?")[0].rstrip("/")).name or "data"


def _mark(files: AbstractFileSystem, path: str) -> object:
    """Return what changes when the file system's files there change: sizes and times, or their tags."""
    info = files.info(path)
    found = files.find(path, detail=True) if info["type"] == "directory" else {path: info}
    if not found:
        raise FileNotFoundError("there is no file in that folder")
    known = ("size", "mtime", "LastModified", "last_modified", "ETag", "etag", "updated", "created", "ino")
    return sorted((file, [str(info.get(key)) for key in known]) for file, info in found.items())


def _fetch(files: AbstractFileSystem, path: str, staged: Path) -> None:
    """Copy a file, or all files of a folder, and make them read-only; links out of a local folder are left out."""
    if isinstance(files, LocalFileSystem):
        if Path(path).is_dir():
            inside = Path(path).resolve()
            for file in sorted(Path(path).rglob("*")):
                if file.is_file() and file.resolve().is_relative_to(inside):
                    (staged / file.relative_to(path)).parent.mkdir(parents=True, exist_ok=True)
                    shutil.copyfile(file, staged / file.relative_to(path))
        else:
            shutil.copyfile(path, staged)
    elif files.isdir(path):
        root = str(files._strip_protocol(path)).rstrip("/")  # noqa: SLF001 - as fsspec's own functions do
        for file in files.find(path):
            name = PurePosixPath(file).relative_to(root)
            if ".." in name.parts:
                raise OSError(f"the name {file!r} leads out of the folder")
            (staged / name).parent.mkdir(parents=True, exist_ok=True)
            files.get_file(file, str(staged / name))
    else:
        files.get_file(path, str(staged))
    for file in [staged, *staged.rglob("*")]:
        if file.is_file():
            file.chmod(stat.S_IRUSR | stat.S_IRGRP | stat.S_IROTH)


def _place(staged: Path, target: Path, digest: str) -> None:
    """Move a copy to its place at once; a damaged one there is replaced."""
    target.parent.mkdir(parents=True, exist_ok=True)
    if target.is_dir():
        target.rename(staged.parent / ".damaged")
    try:
        staged.replace(target)
    except OSError:
        # Another process placed the same folder first.
        if not is_intact(target, digest):
            raise


@contextmanager
def _explain(name: str) -> Iterator[None]:
    """Raise ``data-missing`` for whatever a file system raises: their clients have exceptions of their own."""
    try:
        yield
    except Exception as error:
        raise explain_missing(name, error) from error


def explain_missing(name: str, error: Exception) -> DataError:
    """Return the error for data that cannot be read from where they are."""
    said = str(error).strip() or type(error).__name__
    hint = "Check the path in the catalog: relative ones count from the project's root."
    if isinstance(error, ImportError):
        hint = "Install the package that fsspec needs for it; for s3:// this is s3fs."
    elif "://" in name:
        hint = "Check the address in the catalog, its `credentials` and `fs_args`, and the network."
    return DataError("data-missing", f"{hide_secrets(name)} cannot be read.", why=said, hint=hint)
