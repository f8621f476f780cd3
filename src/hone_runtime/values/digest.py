"""Digests of JSON values, files and directories."""

from __future__ import annotations

import hashlib
import json
import os
import stat
from collections.abc import Iterable
from functools import lru_cache
from pathlib import Path
from typing import Any


def digest_json(value: Any) -> str:
    """Return ``sha256:…`` of a JSON value in canonical form (sorted keys, no blanks)."""
    text = json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False, default=str)
    return "sha256:" + hashlib.sha256(text.encode()).hexdigest()


def digest_file(path: Path) -> str:
    """Return ``sha256:…`` of a file's bytes."""
    with path.open("rb") as stream:
        return "sha256:" + hashlib.file_digest(stream, "sha256").hexdigest()


def digest_tree(folder: Path) -> str:
    """Return ``sha256:…`` of every file below a directory: relative names and bytes, in sorted order.

    Links out of the directory are skipped: their targets may never end.
    """
    inside = os.path.realpath(folder)
    paths = (path for path in folder.rglob("*") if not path.is_symlink() or _leads_into(inside, path))
    return _digest_files(folder, paths)


def _leads_into(folder: str, link: Path) -> bool:
    return Path(os.path.realpath(link)).is_relative_to(folder)


FileState = tuple[str, int, int, int, int]
"""A file's relative name, size, time of change (ns), time of status change (ns) and inode."""


def list_states(folder: Path) -> tuple[FileState, ...]:
    """Return the state of everything below a directory except directories.

    The kernel sets the time of the status change at every write, and no program can set it back. So equal states mean
    equal bytes.
    """
    found = ((path.relative_to(folder).as_posix(), path.lstat()) for path in sorted(folder.rglob("*")))
    return tuple(
        (name, state.st_size, state.st_mtime_ns, state.st_ctime_ns, state.st_ino)
        for name, state in found
        if not stat.S_ISDIR(state.st_mode)
    )


def digest_tree_once(folder: Path) -> str:
    """Return the result of ``digest_tree``; a process reads an unchanged tree only once."""
    return _digest_states(str(folder), list_states(folder))


@lru_cache(maxsize=1024)
def _digest_states(folder: str, states: tuple[FileState, ...]) -> str:  # noqa: ARG001 - the states are the key
    return digest_tree(Path(folder))


def digest_code(root: Path, folders: Iterable[str] = ("",)) -> str:
    """Return ``sha256:…`` of the code in these folders below a root: every file, including data, except caches."""
    paths = (path for folder in folders for path in (root / folder).rglob("*"))
    return _digest_files(root, (path for path in paths if "__pycache__" not in path.parts))


def _digest_files(root: Path, paths: Iterable[Path]) -> str:
    files = (path for path in sorted(paths) if path.is_file())
    return digest_json([(file.relative_to(root).as_posix(), digest_file(file)) for file in files])
