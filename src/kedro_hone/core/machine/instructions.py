"""A CPU's vector instructions: their names, and whether int8 needs seven bits on it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, Self

from kedro_hone.core.contract.adaptor import Options
from kedro_hone.core.contract.host import Host

_WIDTHS: Final[Mapping[str, str]] = {"avx512f": "AVX-512", "avx2": "AVX2", "avx": "AVX", "sse4_2": "SSE4.2"}
"""x86: the widest one is named, since it includes those after it."""

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

_ARM: Final = frozenset({"aarch64", "arm64", "armv7l", "armv8l"})


def name_instructions(flags: frozenset[str]) -> str:
    """Return the names of a CPU's vector instructions as people write them, from flags of x86 or Arm. Pure.

    Such as ``AVX-512, VNNI, BF16``, ``AVX2 only`` or ``NEON, dot product``; ``unknown`` where no flag is known.
    """
    names = [name for flag, name in _WIDTHS.items() if flag in flags][:1]
    names += [name for name, any_of in _EXTENSIONS.items() if any_of & flags]
    return f"{names[0]} only" if len(names) == 1 else ", ".join(names) or "unknown"


def saturates_int8(host: Host) -> bool:
    """Tell whether products of eight-bit integers may saturate, so that int8 needs seven bits. Pure.

    Without VNNI an x86 CPU adds two products of an unsigned and a signed byte in 16 bits (``vpmaddubsw``), which
    saturates above 32,767: 2 · 255 · 127 is 64,770. With weights of seven bits it is 2 · 255 · 64 = 32,640 at most.
    VNNI adds in 32 bits. So do Arm's kernels, with dot product instructions or without (``smlal``, ``sadalp``). True
    where nothing is known of the machine.
    """
    return host.machine not in _ARM and not _EXTENSIONS["VNNI"] & host.flags


class Int8Options(Options):
    """Options of a quantizer whose int8 may be computed with products that saturate.

    Attributes:
        reduce_range: Seven bits instead of eight, for x86 CPUs without VNNI, where eight can saturate; None: where
            this CPU has no VNNI.
    """

    reduce_range: bool | None = None

    def resolve(self, host: Host) -> Self:
        """Return the options with ``reduce_range`` decided; see ``saturates_int8``."""
        if self.reduce_range is not None:
            return self
        return self.model_copy(update={"reduce_range": saturates_int8(host)})
