"""Pickles that other versions wrote: what of them must not be opened here.

Standard library only, Python 3.8 and later.
"""

from __future__ import annotations

import mmap
import platform
from pathlib import Path

from hone_runtime.worker.refusal import UnsuitedError

MISMATCH = "pickle-mismatch"
"""The slug of the error for a pickle that does not fit the versions here."""


def check_code(path: Path, python: str) -> None:
    """Refuse a pickle with compiled code of another Python: it can end the process, or compute something else.

    cloudpickle stores the code of what was defined in a notebook, in a script or by ``lambda``. Each minor version of
    Python has its own bytecode, and runs that of another one without noticing.

    Args:
        path: The pickle, or the archive of ``torch.save`` with one, which is not compressed.
        python: The version of Python that wrote it; empty if unknown.

    Raises:
        UnsuitedError: It contains code, and another minor version wrote it.
    """
    here = platform.python_version()
    if not python or is_same_python(python) or not _has_code(path):
        return
    why = f"{path.name} contains code that was compiled by Python {python}, and Python {here} would misread it"
    raise UnsuitedError(why, MISMATCH)


def is_same_python(version: str) -> bool:
    """Return whether a version of Python has the bytecode of this one: major and minor number are equal."""
    return version.split(".")[:2] == platform.python_version().split(".")[:2]


def _has_code(path: Path) -> bool:
    """Return whether a pickle names the type of compiled code."""
    if not path.stat().st_size:
        return False  # it cannot be mapped
    with path.open("rb") as stream, mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_READ) as content:
        return content.find(b"CodeType") >= 0
