"""The versions that saved an estimator, and those that open it."""

from __future__ import annotations

import importlib.metadata
import platform
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from hone_runtime.worker.pickles import MISMATCH, is_same_python
from hone_runtime.worker.refusal import UnsuitedError

Reference = Mapping[str, Any]
"""How an estimator is opened: the content of ``estimator.json``."""

LIBRARIES = frozenset({"lightgbm", "numpy", "sklearn", "xgboost"})
"""Packages whose classes are opened if the logged model names them; functions are not: they would be called on any
rows."""


def explain_failure(reference: Reference, path: Path, error: Exception) -> Exception:
    """Return what to raise for a file that cannot be opened: it does not fit the versions here, or it is corrupt."""
    cause = f"{type(error).__name__}: {error}"
    if "unsupported pickle protocol" in cause or _is_foreign(reference):
        return UnsuitedError(f"{path.name} cannot be opened ({cause}); {name_versions(reference)}", MISMATCH)
    missing = (error.name or "").partition(".")[0] if isinstance(error, ModuleNotFoundError) else ""
    if missing and missing not in LIBRARIES:
        why = f"{path.name} needs the package {missing!r}, which the environment of estimators does not contain"
        return UnsuitedError(f"{why}; if it is the author's own code, log the model with code_paths=[…]", MISMATCH)
    saved = f", saved by version {reference['version']}" if reference.get("version") else ""
    return ValueError(f"{path.name}{saved}, cannot be opened: {cause}")


def name_versions(reference: Reference) -> str:
    """Return which versions saved an estimator and which open it, as a clause."""
    name, here = _find_library(reference)
    saved = [f"{name} {reference['version']}"] if reference.get("version") else []
    saved += [f"Python {reference['python']}"] if reference.get("python") else []
    opening = f"{name} {here} and Python {platform.python_version()} open it"
    return f"{' and '.join(saved) or 'unknown versions'} saved it, {opening}"


def _is_foreign(reference: Reference) -> bool:
    """Return whether another version of the library or of Python saved an estimator."""
    version, python = reference.get("version"), reference.get("python")
    return bool(version and version != _find_library(reference)[1]) or bool(python and not is_same_python(python))


def _find_library(reference: Reference) -> tuple[str, str]:
    """Return the library that saved an estimator, and its version here."""
    name = "lightgbm" if str(reference.get("class")).startswith("lightgbm") else "scikit-learn"
    return name, importlib.metadata.version(name)
