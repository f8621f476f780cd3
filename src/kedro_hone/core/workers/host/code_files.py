"""Code files that the user names in a recipe and that only workers run: found here, never imported."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib.machinery import ModuleSpec, PathFinder
from pathlib import Path


def find_code_file(name: str, *, project: Path) -> Path | None:
    """Return the file, absolute, of ``path/to/file.py``, relative to the project, or ``package.module``, or None.

    The project's ``src`` and the project itself are searched after Python's own import path. The packages of a dotted
    name are not imported, as ``importlib.util.find_spec`` would do: that runs their ``__init__``, and code from a
    recipe must not run in this process.
    """
    if name.endswith(".py"):
        path = (project / name).resolve()
        return path if path.is_file() else None
    first, *below = name.split(".")
    if not all((first, *below)):
        return None
    name, spec = first, _find_spec(first, None) or PathFinder.find_spec(first, [str(project / "src"), str(project)])
    for part in below:
        if spec is None or spec.submodule_search_locations is None:
            return None
        places, name = list(spec.submodule_search_locations), f"{name}.{part}"
        # By its last part: for a package without __init__ in another one, Python would look up the imported parent.
        spec = PathFinder.find_spec(part, places) or _find_spec(name, places)
    return Path(spec.origin).resolve() if spec is not None and spec.origin and spec.has_location else None


def _find_spec(name: str, places: Sequence[str] | None) -> ModuleSpec | None:
    """Search Python's finders, including those that editable installations add."""
    finders = [finder for finder in sys.meta_path if hasattr(finder, "find_spec")]
    return next((spec for finder in finders if (spec := finder.find_spec(name, places)) is not None), None)
