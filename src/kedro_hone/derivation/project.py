"""A project of Kedro with a derived recipe: the three files that a run reads."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import yaml

from kedro_hone.core.store.disk import write_file

DATA: Final = Path("data", "splits")
"""Where the splits are, in a project."""
_ABOUT: Final = "# Written by `kedro-hone optimize`.\n"


def nest(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return settings by dotted names as nested mappings."""
    nested: dict[str, Any] = {}
    for name, value in settings.items():
        *parents, key = name.split(".")
        place = nested
        for parent in parents:
            place = place.setdefault(parent, {})
        place[key] = value
    return nested


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


def _format(content: Mapping[str, Any]) -> bytes:
    return (_ABOUT + yaml.safe_dump(dict(content), sort_keys=False, allow_unicode=True, width=110)).encode()


def list_entries(files: Mapping[str, str], *, drawn: bool = False) -> dict[str, dict[str, Any]]:
    """Return the catalog's entries for files by split; drawn ones were made without data, and prove nothing."""
    kind = "kedro_hone.datasets.DraftDataset" if drawn else "kedro_hone.datasets.FileDataset"
    return {name: {"type": kind, "path": path} for name, path in files.items()}
