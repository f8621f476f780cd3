"""The MLflow store of a command that enters another folder: its URI, and where no URI is given, its file."""

from __future__ import annotations

import re
from collections.abc import MutableMapping
from pathlib import Path
from typing import Final
from urllib.parse import unquote

from kedro_hone.derivation.source_hints import VARIABLE

_VARIABLES: Final = (VARIABLE, "MLFLOW_REGISTRY_URI")
_SQLITE: Final = re.compile(r"(sqlite(?:\+\w+)?:///)(?![/:]|file:)(?P<file>.+)", re.DOTALL)

_NAMES: Final = frozenset({"databricks", "databricks-uc", "uc"})
"""Stores of MLflow without a scheme that are no folders."""


def pin_store(variables: MutableMapping[str, str], start: Path) -> None:
    """Make the variables of MLflow's stores mean the same in another folder.

    Args:
        variables: Those of the process. Paths in them become absolute. Without a tracking URI, it becomes the store
            that MLflow or a project of ours has in ``start``, if there is one.
        start: The folder where the command was typed.
    """
    for name in _VARIABLES:
        if variables.get(name):
            variables[name] = _make_absolute(variables[name], start)
    places = {f"sqlite:///{start / name}": start / name for name in ("mlflow.db", "data/mlflow.db")}
    places[(start / "mlruns").as_uri()] = start / "mlruns"
    found = next((uri for uri, place in places.items() if place.exists()), None)
    if found and not variables.get(VARIABLE):
        variables[VARIABLE] = found


def _make_absolute(uri: str, start: Path) -> str:
    if match := _SQLITE.fullmatch(uri):
        return f"{match[1]}{start / match['file']}"
    if uri.startswith("file:") and not uri.startswith("file:/"):
        return (start / unquote(uri.removeprefix("file:"))).as_uri()
    return uri if ":" in uri or uri in _NAMES else str(start / uri)
