"""Files of code that the user names in a recipe and that only workers run: found here, never imported."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib.machinery import ModuleSpec, PathFinder
from pathlib import Path


def find_code_file(name: str, *, project: Path) -> Path | None:
    """Return the file that a path or a dotted name stands for.

    The packages of a dotted name are not imported: importing runs their ``__init__``, and nothing that a recipe names
    is run in this process. ``importlib.util.find_spec`` would import them.

    Args:
        name: ``path/to/file.py``, relative to the project, or ``package.module``.
        project: The project's root. Its ``src`` and itself are searched after the places of Python's own.

    Returns:
        The file, absolute; None when there is no such file or module, or it has no file.
    """
    if name.endswith(".py"):
        path = (project / name).resolve()
        return path if path.is_file() else None
    parts = name.split(".")
    if not all(parts):
        return None
    spec = _find_spec(parts[0], None) or PathFinder.find_spec(parts[0], [str(project / "src"), str(project)])
    for index in range(1, len(parts)):
        if spec is None or spec.submodule_search_locations is None:
            return None
        spec = _find_spec(".".join(parts[: index + 1]), list(spec.submodule_search_locations))
    return Path(spec.origin).resolve() if spec is not None and spec.origin and spec.has_location else None


def _find_spec(name: str, places: Sequence[str] | None) -> ModuleSpec | None:
    """Ask Python's finders, among them those that packages installed for editing bring along."""
    finders = [finder for finder in sys.meta_path if hasattr(finder, "find_spec")]
    return next((spec for finder in finders if (spec := finder.find_spec(name, places)) is not None), None)
