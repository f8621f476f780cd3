"""Sealed files: checks of a folder before it is sealed, and its manifest with sizes, digests and attributes.

The store writes the manifest next to the folder of the files; a published winner has it among its files.
"""

from __future__ import annotations

import json
import os
import secrets
import shutil
from collections.abc import Collection, Mapping
from contextlib import suppress
from pathlib import Path, PurePosixPath
from types import MappingProxyType
from typing import Final

from hone_runtime.text import open_logger
from hone_runtime.values.base import Json, Value
from hone_runtime.values.digest import digest_file, digest_json, digest_tree_once
from hone_runtime.values.regular import read_regular

_LOG = open_logger(__name__)

MANIFEST: Final = "artifact.json"
"""The name of the manifest's file."""
_LARGEST: Final = 16 << 20
"""Size limit of a manifest in bytes: enough for a hundred thousand files."""

FILES: Final = "files"
"""The folder of the files in a place of the store: ``objects/<hex>`` or ``trees/<key>``."""


class UnsealableError(ValueError):
    """A folder that cannot become an artifact: for example, without files, or with a link out of the folder."""


def may_share(folder: Path) -> bool:
    """Whether the files of a folder may be hard-linked from other places.

    Not if it contains an ONNX model: the onnx library (as of 1.23) refuses to read external weights with a second hard
    link ("a potential hardlink attack"; ``onnx/checker.cc``).
    """
    return next(folder.rglob("*.onnx"), None) is None


def link_or_copy(source: Path, target: Path) -> None:
    """Give a file that never changes a second name, by a hard link or, if that is impossible, by a copy."""
    try:
        os.link(source, target)
    except OSError:  # it is on another disk, or belongs to another user
        shutil.copyfile(source, target)


def copy_tree(source: Path, target: Path, *, share: bool) -> None:
    """Copy a folder to a path that does not exist; a link to a file inside the folder becomes a copy of that file.

    With ``share``, files are hard links if that is possible and ``may_share`` is true. This is correct only for files
    that never change.

    Raises:
        UnsealableError: An entry is neither a file nor a folder, or is a link out of the folder.
    """
    target.mkdir()
    share = share and may_share(source)
    for path in sorted(source.rglob("*")):
        place = target / path.relative_to(source)
        if path.is_dir() and not path.is_symlink():
            place.mkdir()
        elif not path.is_file() or not path.resolve().is_relative_to(source.resolve()):
            raise UnsealableError(f"{path} is no file, or a link to something outside {source}")
        elif share:
            link_or_copy(path.resolve(), place)
        else:
            shutil.copyfile(path, place)


def measure_files(folder: Path) -> dict[str, int]:
    """Return the size of every file in bytes, by its relative name.

    Raises:
        UnsealableError: An entry in the folder is neither a file nor a folder.
    """
    sizes = {}
    for path in sorted(folder.rglob("*")):
        name = path.relative_to(folder).as_posix()
        if path.is_symlink() or not (path.is_file() or path.is_dir()):
            raise UnsealableError(f"{name} is neither a file nor a folder")
        if path.is_file():
            sizes[name] = path.stat().st_size
    return sizes


class FileRecord(Value):
    """One file: its size in bytes, and ``sha256:…`` of its content."""

    size: int
    digest: str


class Manifest(Value):
    """A record of sealed files, with ``sha256:…`` over their relative names, their content, and the attributes.

    The attributes are those of an artifact without its digest; for a tree ``{"tree": key}``, so that it cannot be
    mistaken for the tree of another key.
    """

    digest: str
    files: dict[str, FileRecord]
    attributes: Json = None

    @classmethod
    def measure(cls, folder: Path, attributes: Json, *, without: Collection[str] = ()) -> Manifest:
        """Read every file of a folder, except the names in ``without``; raises as ``measure_files`` does."""
        sizes = {name: size for name, size in measure_files(folder).items() if name not in without}
        files = {name: FileRecord(size=size, digest=digest_file(folder / name)) for name, size in sizes.items()}
        return cls(digest=_digest(files, attributes), files=files, attributes=attributes)

    @classmethod
    def read(cls, path: Path) -> Manifest:
        """Read a manifest's file; ``ValueError`` if it is damaged, ``OSError`` if it cannot be read."""
        return cls.model_validate_json(read_regular(path, limit=_LARGEST))

    def write(self, path: Path) -> None:
        """Write the manifest's file."""
        path.write_text(json.dumps(self.model_dump(mode="json"), indent=1, sort_keys=True) + "\n", encoding="utf-8")

    def is_of(self, name: str) -> bool:
        """Return whether this is the manifest of a place of the store, as it was sealed; no file is read."""
        room, _, key = name.partition("/")
        tree = room == "trees"
        named = self.attributes == {"tree": key} if tree else bool(self.files) and self.digest == f"sha256:{key}"
        return named and self.digest == _digest(self.files, self.attributes)

    def list_odd(self, folder: Path, *, without: Collection[str] = ()) -> list[str]:
        """Return the names that only the manifest or only the folder has; raises as ``measure_files`` does."""
        return sorted((self.files.keys() ^ measure_files(folder).keys()) - {*without})

    def find_difference(
        self,
        folder: Path,
        *,
        inside: bool = False,
        without: Collection[str] = (),
        read: Mapping[Path, str] = MappingProxyType({}),
    ) -> str | None:
        """Compare every byte of a folder with the sealed files (slow); return the difference as a clause.

        With ``inside`` the manifest is among the files, as in a published winner. Files in ``without`` may exist, and
        are not compared. Files in ``read``, with their digests, are not read again.

        Raises:
            OSError: A file cannot be read, or is removed at this moment.
            UnsealableError: As in ``measure_files``.
        """
        if odd := self.list_odd(folder, without={*without, *([MANIFEST] if inside else [])}):
            return f"the file {odd[0]} is {'missing' if odd[0] in self.files else 'not in the manifest'}"
        for name, file in self.files.items():
            if (read.get(folder / name) or digest_file(folder / name)) != file.digest:
                return f"the file {name} is not the one that was sealed"
        if self.digest != _digest(self.files, self.attributes):
            return "the manifest is not the one that was sealed"
        return None


def seal_files(place: Path, attributes: Json) -> str:
    """Make the files in a place of the store read-only, write the manifest next to them, and return the digest."""
    manifest = Manifest.measure(place / FILES, attributes)
    manifest.write(place / MANIFEST)
    for path in (place / MANIFEST, *(place / FILES / name for name in manifest.files)):
        path.chmod(0o444)
    return manifest.digest


def share_files(folder: Path, place: Path) -> None:
    """Replace files of a folder by links to equal files in a place of the store, so that the disk has only one copy.

    Does nothing if the place is missing or damaged, or if the folder's files must not be links.

    Raises:
        UnsealableError: As in ``measure_files``.
    """
    manifest = read_sealed(place) if may_share(folder) and may_share(place / FILES) else None
    if manifest is None:
        return
    known = {(file.size, file.digest): place / FILES / name for name, file in manifest.files.items()}
    sizes = {size for size, _ in known}
    for name, size in measure_files(folder).items():
        path = folder / name
        if size not in sizes or (same := known.get((size, digest_file(path)))) is None:
            continue
        link = path.with_name(f".{path.name[:100]}-{secrets.token_hex(4)}")
        with suppress(OSError):  # the folder is read-only, or the file system allows no more links to the file
            os.link(same, link)
            link.replace(path)


def read_sealed(place: Path) -> Manifest | None:
    """Return the manifest of a place of the store; None if it is damaged, for another place, or a file differs.

    Every byte is compared before the first use in a process, and again if a file's state has changed since. Otherwise,
    anyone with write access to the store could put another model under the digest of a validated one.
    """
    try:
        manifest = Manifest.read(place / MANIFEST)
        sizes = {name: file.size for name, file in manifest.files.items()}
        if not manifest.is_of(f"{place.parent.name}/{place.name}") or sizes != measure_files(place / FILES):
            return None
        if manifest.digest == _digest_tree(digest_tree_once(place / FILES), manifest.attributes):
            return manifest
        _LOG.warning("%s was changed since it was sealed, and is not used.", place)
    except (FileNotFoundError, NotADirectoryError, ValueError):
        pass  # incomplete, or not written by the store
    return None


def _digest(files: dict[str, FileRecord], attributes: Json) -> str:
    # In the order of the paths, as in digest_tree: the digest covers the tree and its attributes.
    rows = [(name, files[name].digest) for name in sorted(files, key=PurePosixPath)]
    return _digest_tree(digest_json(rows), attributes)


def _digest_tree(files: str, attributes: Json) -> str:
    return digest_json({"files": files, "manifest": attributes})
