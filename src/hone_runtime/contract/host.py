"""The machine that an adaptor would run on, and the vector instructions of its CPU."""

from __future__ import annotations

import platform
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

_WIDTHS: Final[Mapping[str, str]] = {"avx512f": "AVX-512", "avx2": "AVX2", "avx": "AVX", "sse4_2": "SSE4.2"}
"""x86: only the widest one is shown, since it includes those that follow it in this table."""

_EXTENSIONS: Final[Mapping[str, frozenset[str]]] = {
    "NEON": frozenset({"asimd", "neon"}),
    "SVE": frozenset({"sve"}),
    "SVE2": frozenset({"sve2"}),
    "dot product": frozenset({"asimddp"}),
    "I8MM": frozenset({"i8mm"}),
    "VNNI": frozenset({"avx512_vnni", "avx_vnni"}),
    "BF16": frozenset({"avx512_bf16", "bf16"}),
    "FP16": frozenset({"avx512_fp16", "asimdhp"}),
    "AMX": frozenset({"amx_tile"}),
}

INSTRUCTIONS: Final = frozenset({*_WIDTHS.values(), *_EXTENSIONS})
"""The names of vector instructions that ``Host.can`` accepts."""

_ARM: Final = frozenset({"aarch64", "arm64", "armv7l", "armv8l"})


@dataclass(frozen=True, kw_only=True)
class Host:
    """The machine that an adaptor would run on.

    Attributes:
        flags: CPU feature flags, as in ``/proc/cpuinfo``.
        cores: Logical cores that this process may use.
        compilers: Programs on the path that adaptors may need, such as ``c++``.
        fingerprint: Identifies CPU model, flags and operating system; part of the key of machine-specific results.
        machine: The processor's architecture, such as ``x86_64``.
        driver: The version of the GPU's driver, or None.
        os: The operating system and its kernel.
    """

    flags: frozenset[str]
    cores: int
    gpu: str | None
    compilers: frozenset[str]
    fingerprint: str
    machine: str = platform.machine()
    cpu: str = ""
    driver: str | None = None
    memory_bytes: int | None = None
    os: str = ""

    @property
    def instructions(self) -> str:
        """Return the names of the CPU's vector instructions for display, on x86 or Arm.

        Such as ``AVX-512, VNNI, BF16``, ``AVX2 only`` or ``NEON, dot product``; ``unknown`` if no flag is known.
        """
        names = [name for flag, name in _WIDTHS.items() if flag in self.flags][:1]
        names += [name for name, any_of in _EXTENSIONS.items() if any_of & self.flags]
        return f"{names[0]} only" if len(names) == 1 else ", ".join(names) or "unknown"

    def can(self, name: str) -> bool:
        """Return whether the CPU has the named vector instructions, one of ``INSTRUCTIONS``."""
        flags = _EXTENSIONS.get(name) or {flag for flag, known in _WIDTHS.items() if known == name}
        return bool(flags & self.flags)

    @property
    def saturates_int8(self) -> bool:
        """Whether products of eight-bit integers may saturate, so that int8 needs seven bits.

        Without VNNI an x86 CPU adds two products of an unsigned and a signed byte in 16 bits (``vpmaddubsw``), which
        saturates above 32,767: 2 · 255 · 127 is 64,770. With weights of seven bits it is 2 · 255 · 64 = 32,640 at most.
        VNNI adds in 32 bits. So do Arm's kernels, with dot product instructions or without (``smlal``, ``sadalp``).
        True if the machine is unknown.
        """
        return self.machine not in _ARM and not _EXTENSIONS["VNNI"] & self.flags

    @property
    def multiplies_unsigned(self) -> bool:
        """Whether the CPU's faster products of eight-bit integers multiply an unsigned by a signed one.

        This is so on x86 (``vpmaddubsw``, ``vpdpbusd``). On Arm both are signed (``smull``, ``sdot``).
        """
        return self.machine not in _ARM
