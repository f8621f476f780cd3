"""What an interpreter has that the user names for a toolchain; runs in a worker of it, as a worker file of its own."""

from __future__ import annotations

import os
import platform
import sys
from importlib import metadata
from typing import Any

from hone_runtime.worker.packages import import_worker


def examine(job: dict[str, Any]) -> dict[str, Any]:
    """Return what is installed, by name as its author writes it, where, and why the toolchain cannot be imported.

    The job has the ``toolchain``: its worker's file. ``fault`` is None where that can be imported. ``markers`` are for
    the markers of requirements, as ``packaging`` names them, as far as they differ between interpreters of a machine.
    """
    return {
        "versions": dict(filter(None, map(_read_version, metadata.distributions()))),
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


def _read_version(distribution: metadata.Distribution) -> tuple[str, str] | None:
    """Return a distribution's name and version; None for a folder that an interrupted removal has left of one.

    The environments' ``requirements.py`` does the same, of which nothing is importable here.
    """
    try:
        name, version = distribution.metadata["Name"], distribution.metadata["Version"]
    except (FileNotFoundError, KeyError):
        return None
    return (name, version) if name and version else None


def _find_fault(job: dict[str, Any]) -> str | None:
    try:
        import_worker(job["toolchain"], uses=job.get("uses", ()), name="hone_toolchain")
    except BaseException as error:  # noqa: BLE001 - SystemExit too: whatever the toolchain raises is the answer
        lines = str(error).splitlines()
        return ": ".join([type(error).__name__, *lines[:1]])
    return None
