"""What MkDocs calls while it builds: a folder in the navigation stands for all of its pages, the index first."""

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
    config.nav = [{title: _expand(place, Path(config.docs_dir)) for title, place in row.items()} for row in config.nav]
    return config


def _expand(place: Any, docs: Path) -> Any:
    if not isinstance(place, str) or not place.endswith("/"):
        return place
    pages = sorted(path.name for path in (docs / place).glob("*.md") if path.name != "index.md")
    return [f"{place}{name}" for name in ("index.md", *pages)]
