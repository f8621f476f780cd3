"""List the packages of an interpreter that the user chose for a toolchain; runs in a worker, as a worker file."""

from __future__ import annotations

import os
import platform
import sys
from importlib import metadata
from typing import Any

from hone_runtime.worker.packages import import_worker


def examine(job: dict[str, Any]) -> dict[str, Any]:
    """Return the installed packages by name, where they are, and why the toolchain cannot be imported, if so.

    The job has ``toolchain``, the path of the worker file. ``fault`` is None if that can be imported. ``markers`` are
    the values for requirement markers, named as in ``packaging``, that differ between interpreters of a machine.
    """
    return {
        "versions": dict(filter(None, map(read_version, metadata.distributions()))),
        "places": [path for path in sys.path if os.path.isdir(path)],  # noqa: PTH112 - as elsewhere in a worker
        "prefix": sys.prefix,
        "markers": {
            "implementation_name": sys.implementation.name,
            "platform_python_implementation": platform.python_implementation(),
            "python_full_version": platform.python_version(),
            "python_version": ".".join(platform.python_version_tuple()[:2]),
        },
        "fault": _find_fault(job),
    }


def read_version(distribution: metadata.Distribution) -> tuple[str, str] | None:
    """Return a distribution's name and version; None for a folder left behind by an interrupted removal.

    For such a folder importlib_metadata raises; it replaces importlib.metadata once any library has imported it.
    """
    try:
        name, version = distribution.metadata["Name"], distribution.metadata["Version"]
    except (FileNotFoundError, KeyError):
        return None
    return (name, version) if name and version else None


def _find_fault(job: dict[str, Any]) -> str | None:
    try:
        import_worker(job["toolchain"], uses=job.get("uses", ()), name="hone_toolchain")
    except BaseException as error:  # noqa: BLE001 - SystemExit too: any exception of the toolchain is the result
        lines = str(error).splitlines()
        return ": ".join([type(error).__name__, *lines[:1]])
    return None
