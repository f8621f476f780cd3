"""Sealed files: what can be sealed, and the manifest with each file's size and digest, what they are, and one digest.

The store keeps the manifest next to the folder of the files, a published winner among them; it is the same in both.
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
"""The manifest's file."""
_LARGEST: Final = 16 << 20
"""Bytes of a manifest: a hundred thousand files have one."""

FILES: Final = "files"
"""The folder of the files, inside a place of the store: ``objects/<hex>`` or ``trees/<key>``."""


class UnsealableError(ValueError):
    """A folder that cannot become an artifact, such as one with no file or with a link that leads out of it."""


def may_share(folder: Path) -> bool:
    """Whether the files of a folder may have names elsewhere, too, which makes them hard links.

    Not where there is a model in ONNX: its library (as of 1.23) does not read weights next to a model that have a
    second name ("a potential hardlink attack"; ``onnx/checker.cc``).
    """
    return next(folder.rglob("*.onnx"), None) is None


def link_or_copy(source: Path, target: Path) -> None:
    """Let a new name have the bytes of a file that never changes, by a hard link; by a copy where there can be none."""
    try:
        os.link(source, target)
    except OSError:  # it is on another disk, or belongs to another user
        shutil.copyfile(source, target)


def copy_tree(source: Path, target: Path, *, share: bool) -> None:
    """Copy a folder to a place that does not exist; a link to a file inside it becomes a copy of that file.

    With ``share`` the copy has the same bytes (hard links) where that is possible and ``may_share``, which is right
    only for what never changes.

    Raises:
        UnsealableError: Something in it is neither a file nor a folder, or a link that leads out of it.
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
        UnsealableError: Something in the folder is neither a file nor a folder.
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
    """What was sealed, with ``sha256:…`` over the files, by their relative names, and the attributes.

    The attributes are an artifact without its digest; of a tree ``{"tree": key}``, so that it is not taken for the tree
    of another key.
    """

    digest: str
    files: dict[str, FileRecord]
    attributes: Json = None

    @classmethod
    def measure(cls, folder: Path, attributes: Json, *, without: Collection[str] = ()) -> Manifest:
        """Read every file of a folder, without those of some names; raises as ``measure_files``."""
        sizes = {name: size for name, size in measure_files(folder).items() if name not in without}
        files = {name: FileRecord(size=size, digest=digest_file(folder / name)) for name, size in sizes.items()}
        return cls(digest=_digest(files, attributes), files=files, attributes=attributes)

    @classmethod
    def read(cls, path: Path) -> Manifest:
        """Read a manifest's file; ``ValueError`` where it is damaged, ``OSError`` where it cannot be read."""
        return cls.model_validate_json(read_regular(path, limit=_LARGEST))

    def write(self, path: Path) -> None:
        """Write the manifest's file."""
        path.write_text(json.dumps(self.model_dump(mode="json"), indent=1, sort_keys=True) + "\n", encoding="utf-8")

    def is_of(self, name: str) -> bool:
        """Return whether this is the manifest of a place of the store, and as it was sealed; no file is read."""
        room, _, key = name.partition("/")
        tree = room == "trees"
        named = self.attributes == {"tree": key} if tree else bool(self.files) and self.digest == f"sha256:{key}"
        return named and self.digest == _digest(self.files, self.attributes)

    def list_odd(self, folder: Path, *, without: Collection[str] = ()) -> list[str]:
        """Return the names that only the manifest has, or only the folder; raises as ``measure_files``."""
        return sorted((self.files.keys() ^ measure_files(folder).keys()) - {*without})

    def find_difference(
        self,
        folder: Path,
        *,
        inside: bool = False,
        without: Collection[str] = (),
        read: Mapping[Path, str] = MappingProxyType({}),
    ) -> str | None:
        """Compare every byte of a folder with what was sealed (slow); return what differs as a clause.

        With ``inside`` the manifest is among the files, as in a published winner. Files of the names in ``without`` may
        be there, and are not compared. What was ``read`` already, with its digest, is not read again.

        Raises:
            OSError: A file cannot be read, or is removed at this moment.
            UnsealableError: As ``measure_files``.
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
    """Make the files of a place of the store read-only, write the manifest next to them, and return the digest."""
    manifest = Manifest.measure(place / FILES, attributes)
    manifest.write(place / MANIFEST)
    for path in (place / MANIFEST, *(place / FILES / name for name in manifest.files)):
        path.chmod(0o444)
    return manifest.digest


def share_files(folder: Path, place: Path) -> None:
    """Let the files of a folder that are equal to one of a place of the store be links to it, so that the disk has one.

    Nothing is done where the place is not there any more, or damaged, or the folder's files must not be links.

    Raises:
        UnsealableError: As ``measure_files``.
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
        with suppress(OSError):  # the folder is read-only, or the file has as many links as the file system allows
            os.link(same, link)
            link.replace(path)


def read_sealed(place: Path) -> Manifest | None:
    """Return the manifest of a place of the store; None if it is damaged, of another place, or a file differs.

    Every byte is compared before the first use in a process, and again where a file has another state since: who can
    write to the store could otherwise put another model under the digest of one that was validated.
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
        pass  # incomplete, or not of ours
    return None


def _digest(files: dict[str, FileRecord], attributes: Json) -> str:
    # In the order of the paths, as digest_tree has it: the digest is that of the tree and of what it is.
    rows = [(name, files[name].digest) for name in sorted(files, key=PurePosixPath)]
    return _digest_tree(digest_json(rows), attributes)


def _digest_tree(files: str, attributes: Json) -> str:
    return digest_json({"files": files, "manifest": attributes})
