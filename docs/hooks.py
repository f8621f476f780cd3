"""Hooks of MkDocs: a folder in the navigation is replaced by all its pages, the index first."""

from __future__ import annotations

from pathlib import Path
from typing import Any


def on_config(config: Any) -> Any:
    """Replace folders in the navigation by their pages.

    Args:
        config: The configuration.

    Returns:
        The same.
    """
    config.nav = _expand(config.nav, Path(config.docs_dir))
    return config


def _expand(place: Any, docs: Path) -> Any:
    if isinstance(place, list):
        return [_expand(row, docs) for row in place]
    if isinstance(place, dict):
        return {title: _expand(below, docs) for title, below in place.items()}
    if not place.endswith("/"):
        return place
    pages = sorted(path.name for path in (docs / place).glob("*.md") if path.name != "index.md")
    return [f"{place}{name}" for name in ("index.md", *pages)]
