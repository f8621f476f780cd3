"""Digests of JSON values, files and directories."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from pathlib import Path

from kedro_hone.core.values.base import Json


def digest_json(value: Json) -> str:
    """Return ``sha256:…`` of a JSON value in canonical form (sorted keys, no blanks)."""
    text = json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False, default=str)
    return "sha256:" + hashlib.sha256(text.encode()).hexdigest()


def digest_file(path: Path) -> str:
    """Return ``sha256:…`` of a file's bytes."""
    with path.open("rb") as stream:
        return "sha256:" + hashlib.file_digest(stream, "sha256").hexdigest()


def digest_tree(folder: Path) -> str:
    """Return ``sha256:…`` of every file below a directory: relative names and bytes, in sorted order."""
    return _digest_files(folder, folder.rglob("*"))


def digest_code(root: Path, folders: Iterable[str] = ("",)) -> str:
    """Return ``sha256:…`` of the code in these folders below a root: every file, data included, but Python's caches."""
    paths = (path for folder in folders for path in (root / folder).rglob("*"))
    return _digest_files(root, (path for path in paths if "__pycache__" not in path.parts))


def _digest_files(root: Path, paths: Iterable[Path]) -> str:
    files = (path for path in sorted(paths) if path.is_file())
    return digest_json([(file.relative_to(root).as_posix(), digest_file(file)) for file in files])
