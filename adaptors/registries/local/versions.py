"""Versions in local folders: read them, and explain errors."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path, PurePath
from typing import Final

from pydantic import TypeAdapter

from hone_runtime.contract.aliases import PULL, format_record_name
from hone_runtime.contract.registry import explain_unknown
from hone_runtime.errors import HoneError
from hone_runtime.values.digest import digest_json
from hone_runtime.values.manifest import MANIFEST
from hone_runtime.values.regular import read_regular
from hone_runtime.values.trees import StrangeTreeError
from kedro_hone.sources.files import make_corrupt
from kedro_hone.sources.source_format import MLMODEL

SUFFIX: Final = "-hone"
"""The folder with the winners of ``models/digits`` is ``models/digits-hone``."""
TAGS: Final = "hone.json"
"""The file with a published version's tags."""
_MODELS: Final = (".onnx", ".pt2")
_TAGS: Final = TypeAdapter(dict[str, str])
_NAME_ONE: Final = f"Name a model file, or a folder with {MLMODEL} or a model, such as config.json and its weights."
_LONGEST: Final = 255
"""Limit of a file's name in bytes."""


def find_problem(*, name: str | None, alias: str | None) -> str:
    """Return why a name is invalid for a folder, or an alias for a link in it; empty if both are valid."""
    last = None if name is None else PurePath(name).name
    odd = alias is not None and (not alias or alias.isdecimal() or "/" in alias or alias.startswith("."))
    problems = {
        f"hone.publish.name: {name!r} names no folder.": name is not None and (not name or last == ".."),
        f"hone.publish.alias: {alias!r} is a version's number, a path or hidden, and an alias is a link.": odd,
        "hone.publish: a path has no null character.": "\0" in (name or "") + (alias or ""),
        f"hone.publish.name: {last!r} has over {_LONGEST} bytes with {SUFFIX}.": _is_long((last or "") + SUFFIX),
        f"hone.publish.alias: {alias!r} has over {_LONGEST} bytes.": _is_long(alias or ""),
    }
    return next((problem for problem, is_so in problems.items() if is_so), "")


def read_tags(path: Path) -> dict[str, str]:
    """Return a published version's tags; empty if the folder is not such a version."""
    file = path / TAGS
    if not file.is_file():
        return {}
    try:
        return _TAGS.validate_json(read_regular(file))
    except (OSError, ValueError) as error:
        raise make_corrupt(file, f"it holds no tags ({type(error).__name__})") from error


def read_aliases(home: Path) -> dict[str, str]:
    """Return the version that each link next to the versions points to."""
    aliases = {}
    for link in home.glob("[!.]*"):
        if link.is_symlink():
            with suppress(OSError, RuntimeError):  # a link to itself
                aliases[link.name] = link.resolve().name
    return aliases


def find_given(home: Path, alias: str, pull: str | None) -> str | None:
    """Return the version that an alias was last moved to by a publication; None if that was from another pull."""
    place = (home / format_record_name(alias)).resolve()
    return place.name if pull and read_tags(place).get(PULL) == pull else None


def list_models(root: Path) -> tuple[list[Path], dict[str, Exception]]:
    """Return the models in a folder, with the versions published next to them; and unreadable entries.

    The latter are by path, with the reason.
    """
    found: list[Path] = []
    failed: dict[str, Exception] = {}
    for path in sorted(root.iterdir()):
        try:
            found += _list_entry(path)
        except OSError as error:
            failed[str(path)] = error
    return found, failed


def _list_entry(path: Path) -> list[Path]:
    """Return the models of an entry in a folder: none, the entry itself, or the versions in it."""
    if path.name.startswith(".") or path.is_symlink():
        return []
    if not path.is_dir():
        return [path] if path.is_file() and path.suffix in _MODELS else []
    if path.name.endswith(SUFFIX):
        return [version for version in sorted(path.iterdir()) if version.name.isdecimal()]
    is_model = any(file.name in {MLMODEL, MANIFEST} or file.suffix in _MODELS for file in path.iterdir())
    return [path] if is_model else []


def read_stamp(path: Path) -> tuple[int, str]:
    """Return a model's last modification time in nanoseconds, and a text that changes with each of its files."""
    rows = [(str(file), file.stat().st_size, file.stat().st_mtime_ns) for file in _list_files(path)]
    return max((changed for _, _, changed in rows), default=0), digest_json(rows)


def read_arrival(path: Path) -> float:
    """Return the arrival time of a model in seconds since 1970; copies may have the original's modification time."""
    return max(file.stat().st_ctime for file in [path, *_list_files(path)])


def _list_files(path: Path) -> list[Path]:
    return [path] if path.is_file() else [file for file in sorted(path.rglob("*")) if file.is_file()]


@contextmanager
def explain_changes(path: Path) -> Iterator[None]:
    """Explain that others changed a model while it was read: the files would not be those of the named version."""
    try:
        yield
    except StrangeTreeError as error:
        raise make_corrupt(path, f"it is not a version of a model: {error}") from error
    except (shutil.Error, FileNotFoundError, NotADirectoryError, IsADirectoryError) as error:
        raise HoneError(
            "model-unknown",
            f"{path} was changed or deleted while it was read.",
            why=str(error)[:200],
            hint="Run again when no process writes to it.",
        ) from error


def explain_odd(uri: str, error: Exception) -> HoneError:
    """Return the error for a path that the operating system rejects."""
    return HoneError(
        "model-unknown",
        "No file can have this path.",
        why=f"{uri[:80]!r}: {error}"[:200],
        hint=_NAME_ONE,
    )


def explain_missing(path: Path) -> HoneError:
    """Return the error for a path that does not exist, with the nearest name."""
    home = next(parent for parent in path.parents if parent.is_dir())
    names = sorted(file.name for file in home.iterdir())
    missing = path.relative_to(home).parts[0]
    advice = f" {_NAME_ONE}"
    return explain_unknown("model-unknown", f"There is no {path}.", missing, names, f"files in {home}:", advice=advice)


def _is_long(name: str) -> bool:
    return len(os.fsencode(name)) > _LONGEST
