"""Packages of workers: importable by name, though their folders are on no path.

A worker's process finds ``hone_runtime``, the package of its own toolchain, and those of the toolchains that it uses.
The site-packages of kedro-hone are never on its path. A user's process that loads a winner finds them in the same way.
Standard library only, Python 3.8 and later.
"""

# Importing pathlib would cost each worker time.
# ruff: noqa: PTH118, PTH119

from __future__ import annotations

import importlib
import importlib.abc
import importlib.util
import os
import sys
import threading
from collections.abc import Iterable
from typing import Any

from hone_runtime.worker.imports import forget_parts, load_file

PREFIX = "hone_"
"""The prefix of the name of a toolchain's package; the toolchain's own name follows."""

_IMPORTING = threading.RLock()


def _renew_lock() -> None:
    """Replace the lock in a forked process: the thread that may have held it does not exist there."""
    global _IMPORTING  # noqa: PLW0603 - the process has one
    _IMPORTING = threading.RLock()


os.register_at_fork(after_in_child=_renew_lock)


class _Finder(importlib.abc.MetaPathFinder):
    """Finds packages by their names.

    Attributes:
        folders: The folder of each package, by its name.
    """

    def __init__(self) -> None:
        self.folders: dict[str, str] = {}

    def find_spec(self, fullname: str, path: Any = None, target: Any = None) -> Any:  # noqa: ARG002 - Python's protocol
        folder = self.folders.get(fullname)
        if folder is None:
            return None
        file = os.path.join(folder, "__init__.py")
        return importlib.util.spec_from_file_location(fullname, file, submodule_search_locations=[folder])


def import_worker(path: str, *, uses: Iterable[str] = (), name: str = "hone_worker") -> Any:
    """Import a toolchain's worker, once for all threads.

    Args:
        path: The worker's file. If it is the ``__init__.py`` of a folder ``hone_<toolchain>``, it is imported as a
            package of this name.
        uses: The folders of other packages that it imports.
        name: The module's name if it is not such a package.

    Raises:
        ImportError: It is not a Python file, or one of its imports fails.
        FileNotFoundError: It does not exist.
    """
    with _IMPORTING:  # another thread must not see a partly executed module
        for folder in uses:
            make_importable(folder)
        folder, file = os.path.split(path)
        package = os.path.basename(folder)
        if file == "__init__.py" and package.startswith(PREFIX):
            make_importable(folder)
            return importlib.import_module(package)
        known = sys.modules.get(name)
        return known if getattr(known, "__file__", None) == path else load_file(name, path)


def make_importable(folder: str) -> None:
    """Make a folder importable as the package of its name, before any installed package of this name.

    A package of ours from another folder is replaced.

    Raises:
        ImportError: The folder's name is not that of a toolchain's package; or another package of this name was
            imported before. That package may belong to the user's program, so it is not replaced.
    """
    finder = next((one for one in sys.meta_path if isinstance(one, _Finder)), None)
    if finder is None:
        finder = _Finder()
        sys.meta_path.insert(0, finder)
    name = os.path.basename(folder)
    if not name.startswith(PREFIX):  # it would be found in the place of another package of this name
        raise ImportError(f"{folder}: a worker that other toolchains use is in a folder named {PREFIX}<toolchain>")
    if finder.folders.get(name) != folder:
        if name not in finder.folders and name in sys.modules:
            found = getattr(sys.modules[name], "__file__", None) or "elsewhere"
            raise ImportError(
                f"a package {name} is imported already, from {found}: rename it, since {folder} is {name}"
            )
        finder.folders[name] = folder
        forget_parts(name)
        sys.modules.pop(name, None)
