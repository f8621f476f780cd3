"""This machine: what adaptors may need of it, and what the evidence records of it."""

from __future__ import annotations

import os
import platform
import shutil
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from kedro_hone.core.contract.host import Host
from kedro_hone.core.machine.instructions import name_instructions
from kedro_hone.core.text import open_logger
from kedro_hone.core.values.base import Json
from kedro_hone.core.values.digest import digest_json

_LOG = open_logger(__name__)

COMPILERS: Final[Mapping[str, tuple[str, ...]]] = {"c++": ("c++", "g++", "clang++")}
"""Compilers that adaptors need, and the programs that count as one."""

GPU_SECONDS: Final = 120.0
"""How long ``nvidia-smi`` may take: on a busy machine that has to load the driver first, more than some seconds."""

_CPUINFO = Path("/proc/cpuinfo")
_GOVERNOR = Path("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor")


@dataclass(frozen=True, kw_only=True)
class Gpu:
    """The first GPU, as its driver names it."""

    name: str
    driver: str


def read_host() -> Host:
    """Return what adaptors may need of this machine; its cores are those that this process may use.

    The kernel's version is not part of the fingerprint: results do not depend on it.
    """
    model, flags = read_cpu(_CPUINFO)
    gpu = find_gpu()
    parts = {
        "cpu": model,
        "flags": sorted(flags),
        "machine": platform.machine(),
        "system": platform.system(),
        "libc": "-".join(platform.libc_ver()),
        "gpu": gpu.name if gpu else None,
    }
    return Host(
        flags=flags,
        cores=len(os.sched_getaffinity(0)),
        gpu=gpu.name if gpu else None,
        compilers=frozenset(name for name, programs in COMPILERS.items() if any(map(shutil.which, programs))),
        fingerprint=digest_json(parts),
    )


def describe_hardware() -> dict[str, Json]:
    """Return what the evidence records of this machine, now.

    ``memory_bytes`` is the machine's; ``governor`` the CPU's frequency governor, or None where the system hides it;
    ``load`` the mean number of runnable processes over the last 1, 5 and 15 minutes.
    """
    model, flags = read_cpu(_CPUINFO)
    gpu = find_gpu()
    return {
        "cpu": model,
        "cores": len(os.sched_getaffinity(0)),
        "flags": sorted(flags),
        "instructions": name_instructions(flags),
        "gpu": gpu.name if gpu else None,
        "driver": gpu.driver if gpu else None,
        "memory_bytes": os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"),
        "os": f"{_name_system()} (kernel {platform.release()}, {platform.machine()})",
        "governor": _GOVERNOR.read_text().strip() if _GOVERNOR.exists() else None,
        "load": [round(load, 2) for load in os.getloadavg()],
    }


def read_cpu(path: Path) -> tuple[str, frozenset[str]]:
    """Return the model of the first core, or the machine's type where the kernel does not name it, and the flags.

    The file is in the form of ``/proc/cpuinfo``; x86 and Arm name their lines differently.
    """
    fields: dict[str, str] = {}
    if path.exists():
        for line in path.read_text().splitlines():
            name, _, value = line.partition(":")
            fields.setdefault(name.strip().lower(), value.strip())
    arm = " ".join(fields[key] for key in ("cpu implementer", "cpu part", "cpu variant") if key in fields)
    model = fields.get("model name") or (f"{platform.machine()} {arm}" if arm else platform.machine())
    return model, frozenset((fields.get("flags") or fields.get("features") or "").split())


def find_gpu() -> Gpu | None:
    """Return the first GPU that ``nvidia-smi`` lists, or None when there is no driver or it does not work."""
    program = shutil.which("nvidia-smi")
    if program is None:
        return None
    command = [program, "--query-gpu=name,driver_version", "--format=csv,noheader"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=GPU_SECONDS, check=True)
    except (OSError, subprocess.SubprocessError) as error:
        _LOG.warning("No GPU is used, since nvidia-smi does not work here: %s", error)
        return None
    rows = [line for line in done.stdout.splitlines() if line.strip()]
    if not rows:
        return None
    name, _, driver = rows[0].rpartition(",")
    return Gpu(name=name.strip(), driver=driver.strip())


def _name_system() -> str:
    try:
        return platform.freedesktop_os_release()["PRETTY_NAME"]
    except (OSError, KeyError):
        return platform.system()
