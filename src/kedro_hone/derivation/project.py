"""A project of Kedro with a derived recipe: the three files that a run reads."""

from __future__ import annotations

import copy
import functools
import re
import shutil
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

import yaml

from hone_runtime.errors import HoneError
from hone_runtime.text import escape_breaks
from kedro_hone.core.store.disk import write_file

DATA: Final = Path("data", "splits")
"""Where the splits are, in a project."""
_MARK: Final = Path("data", "hone", "derived")
"""A file in a folder for derived projects: what is there may be replaced."""
_WRITTEN: Final = ("conf", "conf/base", "conf/local", "data", DATA)
"""The folders of a derived project in which files are replaced."""
LOCK: Final = Path("data", "hone", "optimize.lock")
"""The lock of a folder in which a project is derived."""
_BETWEEN_KEYS: Final = re.compile(r"\.(?![^\[]*\])")
_ABOUT: Final = "# Written by `kedro-hone optimize`.\n"


def nest(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return settings by dotted names as nested mappings; a key with a dot is in brackets, as in Kedro's ``--params``.

    Raises:
        HoneError: ``option-invalid``: two of them set one key.
    """
    nested: dict[str, Any] = {}
    for name, value in settings.items():
        keys = [part.strip("[]") for part in _BETWEEN_KEYS.split(name.replace("[", ".["))]
        _merge(nested, functools.reduce(lambda inner, key: {key: inner}, reversed(keys), value), name)
    return nested


def _merge(place: dict[str, Any], given: Mapping[str, Any], name: str) -> None:
    """Add the keys of a setting of this name to those of others; none may have two values."""
    for key, value in given.items():
        known = place.get(key)
        if isinstance(known, dict) and isinstance(value, Mapping):
            _merge(known, value, name)
        elif key in place:
            why = f"{key!r} has the value {known!r} already, and {name!r} sets it as well."
            raise HoneError("option-invalid", "Two options set one key of the recipe.", why=why, hint="Set it once.")
        else:
            place[key] = copy.deepcopy(value)


def claim_folder(folder: Path, *, flag: str) -> bool:
    """Make a folder for derived projects, or take one that is empty or was claimed before; return whether it is new.

    Args:
        folder: The project's root.
        flag: The option that names the folder, for the error.

    Raises:
        HoneError: ``option-invalid``: the folder has other files, which might be lost, or links in place of its own.
    """
    mark = folder / _MARK
    if link := next((folder / name for name in _WRITTEN if (folder / name).is_symlink()), None):
        why = f"{link} is a link, and files where it leads would be replaced."
        hint = f"Remove the link, or name another folder: {flag} FOLDER."
        raise HoneError("option-invalid", f"{flag} names a folder with a link in it.", why=why, hint=hint)
    if not mark.exists() and (others := _list_others(folder)):
        raise _explain_occupied(folder, others, flag)
    new = not mark.exists()
    mark.parent.mkdir(parents=True, exist_ok=True)
    mark.touch()
    return new


def release_folder(folder: Path, *, existed: bool) -> None:
    """Remove what was made in a claimed folder if nothing else is in it; its lock must be held.

    What was pulled stays: a second attempt uses it.

    Args:
        folder: The project's root.
        existed: Whether the folder itself was there before it was claimed; then it stays, empty.
    """
    files = {path.relative_to(folder) for path in folder.rglob("*") if not path.is_dir() or path.is_symlink()}
    if not files <= {_MARK, LOCK}:
        return
    shutil.rmtree(folder / _MARK.parts[0], ignore_errors=True)
    if not existed:
        with suppress(OSError):  # another process has made something in it
            folder.rmdir()


def _list_others(folder: Path) -> list[str]:
    """Return the names of files and folders that no run has made."""
    found = {path.name for path in folder.iterdir()} if folder.is_dir() else set()
    if found == {"data"}:
        found = {path.name for path in (folder / "data").iterdir()} - {_MARK.parts[1]}
    return sorted(found)


def save_project(folder: Path, target: Path, *, recipe: Mapping[str, Any], catalog: Mapping[str, Any]) -> None:
    """Write a derived project and its splits to another folder, which is empty or does not exist.

    Raises:
        HoneError: ``option-invalid``: the folder has files, which might be lost.
    """
    if others := _list_others(target):
        raise _explain_occupied(target, others, "--save")
    write_project(target, recipe=recipe, catalog=catalog)
    if (folder / DATA).is_dir():
        shutil.copytree(folder / DATA, target / DATA)


def _explain_occupied(folder: Path, others: Sequence[str], flag: str) -> HoneError:
    listed = f"{', '.join(others[:5])}{' …' if len(others) > 5 else ''}"
    why = f"{folder} has {listed}, and files of the same names would be lost."
    hint = f"Name a folder that is empty or does not exist: {flag} FOLDER."
    return HoneError("option-invalid", f"{flag} names a folder with other files.", why=why, hint=hint)


def write_project(folder: Path, *, recipe: Mapping[str, Any], catalog: Mapping[str, Any]) -> None:
    """Write the recipe and the catalog of a project; what else is in the folder stays.

    Args:
        folder: The project's root, which is made if it does not exist.
        recipe: The value of ``hone`` in the parameters.
        catalog: The entries of the splits; paths in it are relative to the project.
    """
    conf = folder / "conf"
    (conf / "base").mkdir(parents=True, exist_ok=True)
    (conf / "local").mkdir(exist_ok=True)
    write_file(conf / "base" / "parameters.yml", _format({"hone": dict(recipe)}))
    write_file(conf / "base" / "catalog.yml", _format(catalog))


class _Dumper(yaml.SafeDumper):
    """Writes text with a line break in double quotes, with an escape in its place, so that no line is foreign."""


def _write_text(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    style = '"' if escape_breaks(text) != text else None
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style=style)


_Dumper.add_representer(str, _write_text)


def format_yaml(content: Mapping[str, Any]) -> str:
    """Return a recipe or a catalog as YAML, in which no text takes more than one line."""
    return yaml.dump(dict(content), Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=10**6)


def _format(content: Mapping[str, Any]) -> bytes:
    return (_ABOUT + format_yaml(content)).encode()


def merge(recipe: dict[str, Any], settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return a recipe with settings over it, section by section."""
    merged = dict(recipe)
    for name, value in settings.items():
        known = merged.get(name)
        merged[name] = merge(known, value) if isinstance(known, dict) and isinstance(value, Mapping) else value
    return merged
