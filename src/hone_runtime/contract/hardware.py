"""Properties of this machine, for adaptors and for the evidence."""

from __future__ import annotations

import os
import platform
import shutil
import subprocess
from functools import lru_cache
from pathlib import Path
from typing import Final

from hone_runtime.contract.host import Host
from hone_runtime.text import open_logger
from hone_runtime.values.digest import digest_json

_LOG = open_logger(__name__)

_GPU_SECONDS: Final = 120.0
"""Time limit of ``nvidia-smi``: on a busy machine it needs several seconds if it must load the driver first."""

_CPUINFO = Path("/proc/cpuinfo")


def read_host() -> Host:
    """Return this machine. The fingerprint omits the kernel's version, since results do not depend on it."""
    model, flags = _read_cpu()
    gpu, driver = _find_gpu()
    parts = {
        "cpu": model,
        "flags": sorted(flags),
        "machine": platform.machine(),
        "system": platform.system(),
        "libc": "-".join(platform.libc_ver()),
        "gpu": gpu,
    }
    return Host(
        flags=flags,
        cores=len(os.sched_getaffinity(0)),
        gpu=gpu,
        compilers=frozenset({"c++"} if any(map(shutil.which, ("c++", "g++", "clang++"))) else ()),
        fingerprint=digest_json(parts),
        cpu=model,
        driver=driver,
        memory_bytes=os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"),
        os=f"{_name_system()} (kernel {platform.release()}, {platform.machine()})",
    )


def _read_cpu() -> tuple[str, frozenset[str]]:
    """Return the model and the flags of the first core; the machine's type if the kernel reports no model."""
    fields: dict[str, str] = {}
    if _CPUINFO.exists():
        for line in _CPUINFO.read_text().splitlines():
            name, _, value = line.partition(":")
            fields.setdefault(name.strip().lower(), value.strip())
    # x86 and Arm name the lines differently.
    arm = " ".join(fields[key] for key in ("cpu implementer", "cpu part", "cpu variant") if key in fields)
    model = fields.get("model name") or (f"{platform.machine()} {arm}" if arm else platform.machine())
    return model, frozenset((fields.get("flags") or fields.get("features") or "").split())


def _find_gpu() -> tuple[str, str] | tuple[None, None]:
    """Return name and driver of the first GPU that ``nvidia-smi`` lists; (None, None) if absent or if it fails."""
    program = shutil.which("nvidia-smi")
    return (None, None) if program is None else _query_gpu(program)


@lru_cache(maxsize=1)
def _query_gpu(program: str) -> tuple[str, str] | tuple[None, None]:
    """Query once per process: it takes a second if no other process has the driver loaded, and each step needs it."""
    command = [program, "--query-gpu=name,driver_version", "--format=csv,noheader"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=_GPU_SECONDS, check=True)
    except (OSError, subprocess.SubprocessError) as error:
        _LOG.warning("No GPU is used, since nvidia-smi does not work here: %s", error)
        return None, None
    name, comma, driver = done.stdout.strip().partition("\n")[0].rpartition(",")
    return (name.strip(), driver.strip()) if comma else (None, None)


def _name_system() -> str:
    try:
        return platform.freedesktop_os_release()["PRETTY_NAME"]
    except (OSError, KeyError):
        return platform.system()
