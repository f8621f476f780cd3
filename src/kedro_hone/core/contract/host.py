"""Where an adaptor runs."""

from __future__ import annotations

import platform
from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class Host:
    """The machine that an adaptor would run on.

    Attributes:
        flags: CPU feature flags, as in ``/proc/cpuinfo``.
        cores: Logical cores.
        gpu: The GPU's name, or None.
        compilers: Programs on the path that adaptors ask for, such as ``c++``.
        fingerprint: Identifies CPU model, flags and operating system; part of the key of machine-specific results.
        machine: The processor's architecture, such as ``x86_64``.
    """

    flags: frozenset[str]
    cores: int
    gpu: str | None
    compilers: frozenset[str]
    fingerprint: str
    machine: str = platform.machine()
