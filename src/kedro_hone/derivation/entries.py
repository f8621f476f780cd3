"""Entries of the catalog for the splits of the data, as values and as lines of YAML."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any, Final

_PLAIN: Final = re.compile(r"(?=.*/)[A-Za-z/.][\w./@-]*(:/[\w./@-]*)?")


def list_entries(files: Mapping[str, str], *, drawn: bool = False) -> dict[str, dict[str, Any]]:
    """Return the catalog's entries for files by split; drawn ones were made without data, and prove nothing."""
    kind = "kedro_hone.datasets.DraftDataset" if drawn else "kedro_hone.datasets.FileDataset"
    return {name: {"type": kind, "path": path} for name, path in files.items()}


def write_entry(name: str, path: str = "") -> str:
    """Return the entry for a file as one line of YAML; without a path, ``data/<name>.csv``."""
    entry = list_entries({name: path or f"data/{name}.csv"})[name]
    return f"{name}: {{type: {entry['type']}, path: {quote(entry['path'])}}}"


def quote(text: str) -> str:
    """Return a text as a scalar of YAML, in quotes unless it certainly needs none."""
    return text if _PLAIN.fullmatch(text) else json.dumps(text, ensure_ascii=False)
