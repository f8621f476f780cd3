"""Import a file of Python code by its path, and helpers that each worker needs to load a model.

Standard library only, Python 3.8 and later.
"""

# Importing pathlib would cost each worker time.
# ruff: noqa: PTH100, PTH120, PTH122

from __future__ import annotations

import contextlib
import importlib
import importlib.util
import os
import sys
import types
from collections.abc import Iterator
from typing import Any

LIBRARY = "hone_programs"
"""The name under which programs import the built-in programs and their shared modules."""


def load_file(name: str, path: str, *, parts: bool = True) -> Any:
    """Import a file by its path as a module of this name; an existing module of this name is replaced, with its parts.

    With ``parts``, the files next to it become submodules, imported by ``from . import session``.

    Raises:
        ImportError: It is not a Python file.
        FileNotFoundError: It does not exist.
    """
    places = [os.path.dirname(path)] if parts else None
    spec = importlib.util.spec_from_file_location(name, path, submodule_search_locations=places)
    if spec is None or spec.loader is None:
        raise ImportError(f"not a Python file: {path}")
    forget_parts(name)
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # needed by dataclasses, pickles and relative imports
    try:
        spec.loader.exec_module(module)
    except BaseException:
        sys.modules.pop(name, None)
        raise
    return module


def load_program(path: str, library: str) -> Any:
    """Import a program, a file or the ``__init__.py`` of a package with its submodules; return its module.

    ``library`` is the folder of the built-in programs. These and their shared modules become importable as
    ``hone_programs``, without running the code of kedro-hone that finds them.

    Raises:
        ImportError: It is not a Python file, or one of its imports fails.
        FileNotFoundError: It does not exist.
    """
    known = sys.modules.get(LIBRARY)
    if known is None or list(known.__path__) != [library]:
        forget_parts(LIBRARY)
        sys.modules[LIBRARY] = types.ModuleType(LIBRARY)
        sys.modules[LIBRARY].__path__ = [library]
    folder, file = os.path.split(os.path.abspath(path))
    if file != "__init__.py":
        return load_file(f"hone_program_{os.path.splitext(file)[0]}", path, parts=False)
    above, name = os.path.split(folder)
    if above == os.path.abspath(library):
        return importlib.import_module(f"{LIBRARY}.{name}")
    return load_file(f"hone_program_{name}", path)


@contextlib.contextmanager
def set_variables(**variables: str) -> Iterator[None]:
    """Set environment variables temporarily: the process may be a user's that has loaded a winner."""
    before = {name: os.environ.get(name) for name in variables}
    os.environ.update(variables)
    try:
        yield
    finally:
        for name, value in before.items():
            os.environ.pop(name, None)
            if value is not None:
                os.environ[name] = value


def require_cpu(job: dict[str, Any]) -> None:
    """Refuse to load a job's model for another device than the CPU, instead of silently computing on the CPU.

    Raises:
        ValueError: The job's device is another one.
    """
    device = job["input"].get("device", "cpu")
    if device != "cpu":
        raise ValueError(f"the model is for the device {device}, and this toolchain computes on the CPU only")


def forget_parts(name: str) -> None:
    """Remove the modules of a replaced package from ``sys.modules``."""
    for part in [known for known in sys.modules if known.startswith(f"{name}.")]:
        del sys.modules[part]
