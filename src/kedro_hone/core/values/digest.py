"""Digests of JSON values, files and directories."""

from __future__ import annotations

import hashlib
import json
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
    rows = [
        (path.relative_to(folder).as_posix(), digest_file(path)) for path in sorted(folder.rglob("*")) if path.is_file()
    ]
    return digest_json(rows)
