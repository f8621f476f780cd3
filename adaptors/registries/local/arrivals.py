"""New versions in a folder since the last poll: models that appeared or changed, and winners that were published."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

from kedro_hone.core.contract.registry import VersionInfo
from kedro_hone.core.values.digest import digest_json
from kedro_hone.learner.manifest import MANIFEST
from kedro_hone.sources.source_format import MLMODEL

SUFFIX: Final = "-hone"
"""The folder with the winners of ``models/digits`` is ``models/digits-hone``."""
_MODELS: Final = (".onnx", ".pt2")


def list_arrivals(
    root: Path, resolve: Callable[[str], VersionInfo], cursor: str | None
) -> tuple[tuple[VersionInfo, ...], str]:
    """Return the versions that a folder holds and did not hold before, oldest first, and the next cursor.

    Only files whose size or modification time differs from the last poll are read; ``resolve`` does that.
    """
    known: dict[str, list[str]] = json.loads(cursor) if cursor else {}
    seen: dict[str, list[str]] = {}
    found: list[tuple[int, VersionInfo]] = []
    for path in _list_models(root.resolve()):
        changed, stamp = _read_stamp(path)
        old_stamp, version = known.get(str(path), ("", ""))
        if stamp != old_stamp:
            info = resolve(str(path))
            if info.version != version:
                found.append((changed, info))
            version = info.version
        seen[str(path)] = [stamp, version]
    found.sort(key=lambda pair: pair[0])
    return tuple(info for _, info in found), json.dumps(seen)


def _list_models(root: Path) -> Iterator[Path]:
    for path in sorted(root.iterdir()):
        if path.name.startswith(".") or path.is_symlink():
            continue
        if path.is_file():
            if path.suffix in _MODELS:
                yield path
        elif path.name.endswith(SUFFIX):
            yield from (version for version in sorted(path.iterdir()) if version.name.isdecimal())
        elif any(file.name in {MLMODEL, MANIFEST} or file.suffix in _MODELS for file in path.iterdir()):
            yield path


def _read_stamp(path: Path) -> tuple[int, str]:
    """Return when a model was changed last, in nanoseconds, and what changes with each of its files."""
    files = [path] if path.is_file() else [file for file in sorted(path.rglob("*")) if file.is_file()]
    stats = [(str(file), file.stat()) for file in files]
    rows = [[name, stat.st_size, stat.st_mtime_ns] for name, stat in stats]
    return max((stat.st_mtime_ns for _, stat in stats), default=0), digest_json(rows)
