"""The contract between kedro-hone and the toolchains: the description of an adaptor.

An adaptor is a *value*. It imports nothing heavy; the toolchain's own code is in a worker file that is run by path
with the python of the toolchain's environment (see ``core.workers``).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from types import MappingProxyType
from typing import Self

from pydantic import BaseModel, ConfigDict

from kedro_hone.core.contract.host import Host
from kedro_hone.core.contract.toolchain import Toolchain
from kedro_hone.core.values.artifact import Artifact, Precision, Stage
from kedro_hone.core.values.base import Format, Json
from kedro_hone.core.values.device import CPU, Device
from kedro_hone.core.values.outcome import Refused


class Options(BaseModel):
    """Base of an adaptor's options. The defaults must be valid."""

    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True)

    def resolve(self, host: Host) -> Self:  # noqa: ARG002 - the contract's name
        """Return the options with everything decided that is left to the machine; the worker gets these. Pure.

        Called before a step's key is made, so that two machines that decide differently never share a result.
        """
        return self


def _require_flag(flag: str) -> Callable[[Host], str | None]:
    return lambda host: None if flag in host.flags else f"needs a CPU with {flag}"


class Need(StrEnum):
    """What an adaptor needs besides the artifact; a member that asks something of the machine brings its own check.

    ``find_missing`` returns what a machine lacks of this need, as a reason for a refusal; None where it lacks nothing.
    """

    find_missing: Callable[[Host], str | None]

    def __new__(cls, name: str, missing: Callable[[Host], str | None] = lambda _: None) -> Self:
        """Return a member."""
        member = str.__new__(cls, name)
        member._value_ = name
        member.find_missing = missing
        return member

    CALIBRATION_DATA = "calibration-data"
    PROGRAM = "program"
    GPU = "gpu", lambda host: None if host.gpu else "needs a GPU, and this machine has none"
    AVX512_VNNI = "avx512_vnni", _require_flag("avx512_vnni")
    AVX512_BF16 = "avx512_bf16", _require_flag("avx512_bf16")
    CXX_COMPILER = (
        "c++-compiler",
        lambda host: None if "c++" in host.compilers else "needs a C++ compiler (c++ or g++) on the path",
    )


class Capability(StrEnum):
    """What a toolchain may be able to do with a model."""

    DYNAMIC_BATCH = "dynamic-batch"
    EXTERNAL_DATA = "external-data"
    CONTROL_FLOW = "control-flow"
    DETERMINISTIC = "deterministic"


class Support(StrEnum):
    """How well a capability is supported.

    ``VERSIONED`` means that it depends on the toolchain's version; ``NOT_IMPLEMENTED`` that the toolchain can and the
    adaptor does not yet; ``UNSUPPORTED`` that the toolchain cannot.
    """

    FULL = "full"
    VERSIONED = "versioned"
    NOT_IMPLEMENTED = "not-implemented"
    UNSUPPORTED = "unsupported"
    UNKNOWN = "unknown"


@dataclass(frozen=True, kw_only=True)
class Adaptor:
    """One transformation from artifact to artifact.

    Attributes:
        name: ``toolchain.what``, unique, such as ``onnxruntime.int8-static``.
        version: Raised when its output changes; part of the cache key.
        toolchain: The toolchain that it uses.
        stage: Convert, compress or compile.
        accepts: The formats that it takes.
        produces: The format of its result.
        summary: One sentence for the documentation.
        options: The model of its options.
        precisions: What the result computes in or stores.
        needs: What it needs besides the artifact.
        supports: How well it supports each capability.
        machine_specific: Whether the result depends on the CPU or GPU; then their fingerprint is in the cache key.
        default: Whether recipes use it without naming it.
        can_take: A cheap check, without the toolchain: a refusal, or None.
        run_options: For a compile adaptor: options for its runtime, from its own options.
        device: For a compile adaptor: where its result computes.
    """

    name: str
    version: int
    toolchain: Toolchain
    stage: Stage
    accepts: frozenset[Format]
    produces: Format
    summary: str
    options: type[Options] = Options
    precisions: frozenset[Precision] = frozenset({Precision.FP32})
    needs: frozenset[Need] = frozenset()
    supports: Mapping[Capability, Support] = field(default_factory=lambda: MappingProxyType({}))
    machine_specific: bool = False
    default: bool = True
    can_take: Callable[[Artifact, Options, Host], Refused | None] = lambda *_: None
    run_options: Callable[[Options], dict[str, Json]] = lambda _: {}
    device: Device = CPU

    def __post_init__(self) -> None:
        if not re.fullmatch(rf"{self.toolchain.name}\.[a-z0-9][a-z0-9-]*", self.name):
            wanted = f"{self.toolchain.name}.<what>, in lower case with dashes"
            raise ValueError(f"adaptor name {self.name!r}: must be {wanted}")
        if not self.accepts:
            raise ValueError(f"adaptor {self.name}: accepts no format")
        if self.stage is Stage.COMPILE and self.produces not in self.toolchain.runs:
            reason = f"compiles to {self.produces}, which {self.toolchain.name} cannot run"
            raise ValueError(f"adaptor {self.name}: {reason}")
        self.options()

    def find_missing(self, host: Host) -> str | None:
        """Return the first of its needs that a machine does not meet, as a reason; None where all are met."""
        reasons = (need.find_missing(host) for need in sorted(self.needs))
        return next((reason for reason in reasons if reason), None)

    @property
    def segment(self) -> str:
        """The adaptor's segment of a namespace: ``onnxruntime_int8_static``."""
        return re.sub(r"[.-]", "_", self.name)
