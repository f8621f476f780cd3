"""What was probably meant by a SOURCE that names no model: the nearest thing that exists where it was typed."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

from hone_runtime.contract.registries import find_registry
from hone_runtime.errors import HoneError, read_lines

STORES: Final = ("mlflow.db", "data/mlflow.db", "mlruns")
"""The places of an MLflow registry that are looked for in the folder where the command was typed."""
VARIABLE: Final = "MLFLOW_TRACKING_URI"
_UNKNOWN: Final = frozenset({"model-unknown", "model-unsupported", "registry-unknown"})
_WEIGHTS: Final = frozenset({".safetensors", ".bin"})


@contextmanager
def suggest_source(typed: str, start: Path) -> Iterator[None]:
    """Add what was probably meant to the hint of an error that is raised in the block, if SOURCE names no model.

    Args:
        typed: SOURCE as it was typed.
        start: The folder where it was typed.
    """
    try:
        yield
    except HoneError as error:
        if error.slug == "registry-missing" and VARIABLE not in os.environ:
            raise _explain_missing(start) from error
        near = _find_near(typed, start) if error.slug in _UNKNOWN else ""
        if not near:
            raise
        hint = read_lines(f"Did you mean {near}? {error.hint}")
        raise HoneError(error.slug, error.what, why=read_lines(error.why), hint=hint) from error


def _find_near(typed: str, start: Path) -> str:
    """Return the source that was probably meant; empty if absent."""
    scheme = urlsplit(typed).scheme
    if scheme == "hf":
        name = typed.partition(":")[2].strip("/")
        return f"./{name}" if name and (start / name).exists() else ""
    if scheme:
        return ""
    path = start / typed
    if path.is_file() and path.suffix in _WEIGHTS and (path.parent / "config.json").is_file():
        return str(Path(typed).parent)
    if path.exists() or "/" in typed:
        return ""
    name, mark, alias = typed.partition("@")
    uri = f"models:/{name}@{alias}" if mark else f"models:/{name}/latest"
    return uri if _is_known(uri) else ""


def _is_known(uri: str) -> bool:
    """Return whether the configured MLflow registry has a version; nothing is created to find out."""
    try:
        find_registry(uri).resolve(uri)
    except HoneError:
        return False
    return True


def _explain_missing(start: Path) -> HoneError:
    """Return the error for a registry that was looked for in the folder where the command was typed."""
    near = [*start.parents[:2], *(path for path in sorted(start.glob("[!.]*")) if path.is_dir())]
    found = next((place for place in near if any((place / name).exists() for name in STORES)), None)
    hint = f"Name it by {VARIABLE}, or enter the folder that has one of them."
    if found is not None:
        hint = f"Is it that of {found}? Enter that folder, or name it by {VARIABLE}."
    return HoneError(
        "registry-missing",
        f"There is no MLflow registry in {start}.",
        why=f"{VARIABLE} is not set, and the folder has none of {', '.join(STORES)}.",
        hint=f"{hint} Or give the path of a model's file or folder as SOURCE.",
    )
