"""The contract between kedro-hone and the toolchains: the description of an adaptor.

An adaptor is a *value*. It imports nothing heavy. The toolchain's own code is in a worker file, which runs by its
path with the Python of the toolchain's environment (see ``core.workers``).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import IntEnum, StrEnum
from typing import Self

from pydantic import BaseModel, ConfigDict

from hone_runtime.contract.host import Host
from hone_runtime.contract.toolchain import Toolchain
from hone_runtime.values.artifact import Artifact, Precision, Stage
from hone_runtime.values.base import CPU, Device, Format, Json, read_device
from hone_runtime.values.outcome import Refused


class Options(BaseModel):
    """Base of an adaptor's options. The defaults must be valid."""

    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True)

    def resolve(self, host: Host) -> Self:  # noqa: ARG002 - the contract's name
        """Return the options for the worker, with all choices made that depend on the machine. Pure.

        Called before a step's key is computed, so that two machines that choose differently never share a result.
        """
        return self


class Int8Options(Options):
    """Options of a quantizer whose int8 products may saturate on some CPUs."""

    reduce_range: bool | None = None
    """Seven bits instead of eight, for x86 CPUs without VNNI, where eight bits can saturate. None: seven bits if this
    CPU has no VNNI."""

    def resolve(self, host: Host) -> Self:
        """Return the options with ``reduce_range`` decided; see ``Host.saturates_int8``."""
        decided = host.saturates_int8 if self.reduce_range is None else self.reduce_range
        return self.model_copy(update={"reduce_range": decided})


class Need(StrEnum):
    """A requirement of an adaptor besides the artifact: a key of the recipe, or a property of the machine."""

    CALIBRATION_DATA = "calibration-data"
    TRAINING_DATA = "training-data"
    PROGRAM = "program"
    CONVERSION_LIMIT = "conversion-limit"
    """The recipe's ``gates.conversion``: the worker compares the converted model with the source."""
    DROP_LIMIT = "drop-limit"
    """The recipe's ``gates.drop`` and ``gates.drops``: the worker chooses what it quantizes by their metrics."""
    GPU = "gpu"
    AVX512_VNNI = "avx512_vnni"
    AVX512_BF16 = "avx512_bf16"
    CXX_COMPILER = "c++-compiler"

    def find_missing(self, host: Host) -> str | None:
        """Return what the machine lacks for this need, as a reason for a refusal; None if nothing is missing."""
        match self:
            case Need.GPU if not host.gpu:
                return "needs a GPU, and this machine has none"
            case Need.AVX512_VNNI | Need.AVX512_BF16 if self not in host.flags:
                return f"needs a CPU with {self}"
            case Need.CXX_COMPILER if "c++" not in host.compilers:
                return "needs a C++ compiler (c++ or g++) on the path"
        return None


class Capability(StrEnum):
    """A feature of models that a toolchain may support."""

    DYNAMIC_BATCH = "dynamic-batch"
    EXTERNAL_DATA = "external-data"
    CONTROL_FLOW = "control-flow"
    DETERMINISTIC = "deterministic"


class Support(StrEnum):
    """How well a feature is supported: ``NOT_IMPLEMENTED`` if the toolchain supports it but the adaptor does not yet.

    ``UNSUPPORTED`` if the toolchain does not support it.
    """

    FULL = "full"
    NOT_IMPLEMENTED = "not-implemented"
    UNSUPPORTED = "unsupported"
    UNKNOWN = "unknown"


class Place(IntEnum):
    """The place of a compressor in a chain of them: each comes before those with a larger number."""

    REPLACE = 1
    """It replaces layers by faster ones."""
    SHRINK = 2
    """It makes the network smaller, or trains a smaller one."""
    QUANTIZE = 3
    """It computes in another precision."""


@dataclass(frozen=True, kw_only=True)
class Adaptor:
    """One transformation from artifact to artifact.

    Attributes:
        name: ``toolchain.what``, unique, such as ``onnxruntime.int8-static``.
        version: Raised when its output changes; part of the cache key.
        summary: One sentence for the documentation.
        options: The model of its options; all have defaults.
        precisions: The precisions in which the result computes or stores numbers.
        machine_specific: Whether the result depends on the CPU or GPU; then their fingerprint is in the cache key.
        default: Whether recipes use it without naming it.
        alternative: For a converter from a format of source models: whether its result competes in routes of its own,
            besides the results of other converters. If False, only the first converter that succeeds is used.
        can_take: A cheap check, without the toolchain; returns a refusal, or None.
        run_options: For a compile adaptor: returns options for its runtime, from its own options.
        device: For a compile adaptor: the device on which its result computes.
        place: For a compressor: its place in a chain. It follows compressors with a smaller place by itself. If None,
            it follows another only in a chain of the recipe.
        strengths: For a compressor: the values of its options that are tried unless the recipe has others, from mild
            to strong. Each value is a route of its own.
        trains: Whether it changes what the network computes, as pruning with fine-tuning and distillation do: its
            result must be judged by the task's own metric, and is noted as ``trained``.
        throughput: For a compile adaptor: returns values of its options to try where several clients call at once, for
            their number. Each value is one more candidate.
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
    supports: Mapping[Capability, Support] = field(default_factory=dict)
    machine_specific: bool = False
    default: bool = True
    alternative: bool = False
    can_take: Callable[[Artifact, Options, Host], Refused | None] = lambda *_: None
    run_options: Callable[[Options], dict[str, Json]] = lambda _: {}
    device: Device = CPU
    place: Place | None = None
    strengths: Mapping[str, tuple[Json, ...]] = field(default_factory=dict)
    trains: bool = False
    throughput: Callable[[int], Mapping[str, list[Json]]] = lambda _: {}

    def __post_init__(self) -> None:
        if not re.fullmatch(rf"{self.toolchain.name}\.[a-z0-9][a-z0-9-]*", self.name):
            raise ValueError(f"adaptor {self.name!r}: name it {self.toolchain.name}.<what>, lower case, with dashes")
        if not self.accepts:
            raise ValueError(f"adaptor {self.name}: accepts no format")
        if self.stage is Stage.COMPILE and self.produces not in self.toolchain.runs:
            raise ValueError(f"adaptor {self.name}: {self.toolchain.name} cannot run its {self.produces}")
        if self.alternative and self.stage is not Stage.CONVERT:
            raise ValueError(f"adaptor {self.name}: only a converter is an alternative to others")
        if self.trains and self.stage is not Stage.COMPRESS:
            raise ValueError(f"adaptor {self.name}: only a compressor trains")
        read_device(self.device)
        self.options()

    def find_missing(self, host: Host) -> str | None:
        """Return the first need that the machine does not meet, as a reason; None if all are met."""
        return next(filter(None, (need.find_missing(host) for need in sorted(self.needs))), None)
