"""The contract between kedro-hone and the toolchains: what an adaptor says of itself.

An adaptor is a *value*. It imports nothing heavy; the toolchain's own code lies in a worker file that is run by path
with the python of the toolchain's environment (see ``core.run``).
"""

from __future__ import annotations

import platform
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from types import MappingProxyType
from typing import Protocol, Self

from pydantic import BaseModel, ConfigDict, TypeAdapter

from kedro_hone.core.proof import ProvenWinner
from kedro_hone.core.types import Artifact, Format, Json, Precision, Refused, Stage, TensorSpec, Value


class Options(BaseModel):
    """Base of an adaptor's options. The defaults must be valid."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    def resolve(self, host: Host) -> Self:  # noqa: ARG002 - the contract's name
        """Return the options with everything decided that is left to the machine; these, where nothing is.

        Called before a step's key is made, so that two machines that decide differently never share a result. Pure.

        Args:
            host: The machine.

        Returns:
            Options of the same class; the worker gets these.
        """
        return self


class Need(StrEnum):
    """What an adaptor needs beside the artifact."""

    CALIBRATION_DATA = "calibration-data"
    TRAINING_DATA = "training-data"
    PROGRAM = "program"
    GPU = "gpu"
    AVX512_VNNI = "avx512_vnni"
    AVX512_BF16 = "avx512_bf16"
    CXX_COMPILER = "c++-compiler"


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


class Licence(StrEnum):
    """Under which terms a toolchain's results may be used."""

    OPEN = "open"
    PROPRIETARY = "proprietary"
    EVALUATION = "evaluation"
    """May race, is never published, and is off unless the recipe selects it by name."""


@dataclass(frozen=True, kw_only=True)
class Limits:
    """Bounds of one worker.

    Attributes:
        seconds: Wall-clock time of one step.
        memory_mb: Resident memory of the worker's whole process group, in MiB.
        log_kb: How much of its output is kept, in KiB (the first and the last half).
    """

    seconds: float = 600.0
    memory_mb: int = 8192
    log_kb: int = 1024


@dataclass(frozen=True, kw_only=True)
class Host:
    """The machine that an adaptor would run on.

    Attributes:
        flags: CPU feature flags, as in ``/proc/cpuinfo``.
        cores: Logical cores.
        gpu: The GPU's name, or None.
        compilers: Programs on the path that adaptors ask for, such as ``c++``.
        fingerprint: Identifies CPU model, flags and operating system; part of the key of machine-specific results.
    """

    flags: frozenset[str]
    cores: int
    gpu: str | None
    compilers: frozenset[str]
    fingerprint: str
    machine: str = platform.machine()


@dataclass(frozen=True, kw_only=True)
class Toolchain:
    """A library outside us: its locked environment, its worker, and the runtime of the formats that it can run.

    Attributes:
        name: Unique, a valid identifier such as ``onnxruntime``.
        folder: Where ``worker.py``, ``requirements.in`` and ``requirements.lock`` lie.
        runs: The formats that its worker can ``load``.
        formats: Formats of its own: name to the files that must exist (glob patterns), beyond ``core.formats``.
        environment: Variables set for its worker.
        licence: The terms.
        limits: Bounds of its workers.
        extra: The extra of the distribution that installs the *runtime* part, for users of the winner.
        runtime_requirements: What a process needs that only loads and runs its artifacts.
        default: Whether recipes use it without naming it.
        takes_text: Whether its adaptors take models with text among their inputs or outputs; others are refused those.
        note: One sentence for the list of toolchains, such as the terms of an evaluation licence.
    """

    name: str
    folder: Path
    runs: frozenset[Format] = frozenset()
    formats: Mapping[Format, tuple[str, ...]] = field(default_factory=lambda: MappingProxyType({}))
    environment: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    licence: Licence = Licence.OPEN
    limits: Limits = field(default_factory=Limits)
    extra: str | None = None
    runtime_requirements: tuple[str, ...] = ()
    default: bool = True
    takes_text: bool = False
    note: str = ""

    def __post_init__(self) -> None:
        if not re.fullmatch(r"[a-z][a-z0-9_]*", self.name):
            raise ValueError(f"toolchain name {self.name!r}: use lower-case letters, digits and underscores")

    @property
    def worker(self) -> Path:
        """The script that holds the toolchain's own code."""
        return self.folder / "worker.py"

    @property
    def lock(self) -> Path:
        """The pinned requirements of the environment."""
        return self.folder / "requirements.lock"

    @property
    def requirements(self) -> Path:
        """The ranges that an environment must satisfy."""
        return self.folder / "requirements.in"


def take_any(artifact: Artifact, options: Options, host: Host) -> Refused | None:  # noqa: ARG001 - the contract's names
    """Refuse nothing: the default of ``Adaptor.can_take``."""
    return None


def no_run_options(options: Options) -> dict[str, Json]:  # noqa: ARG001 - the contract's name
    """Seal no run options: the default of ``Adaptor.run_options``."""
    return {}


@dataclass(frozen=True, kw_only=True)
class Adaptor:
    """One transformation from artifact to artifact.

    Attributes:
        name: ``toolchain.what``, unique, such as ``onnxruntime.int8-static``.
        version: Raised when its output changes; part of the cache key.
        toolchain: Who does the work.
        stage: Convert, compress or compile.
        accepts: The formats that it takes.
        produces: The format that it leaves.
        summary: One sentence for the documentation.
        options: The model of its options.
        precisions: What the result computes in or stores.
        needs: What it needs beside the artifact.
        supports: Five-state answers about capabilities.
        machine_specific: Whether the result depends on the CPU or GPU; then their fingerprint is in the cache key.
        default: Whether recipes use it without naming it.
        can_take: A cheap check, without the toolchain: a refusal, or None.
        run_options: For a compile adaptor: what its runtime is told, from its options.
        runtime: For a compile adaptor: the toolchain that runs the result; its own when not given.
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
    can_take: Callable[[Artifact, Options, Host], Refused | None] = take_any
    run_options: Callable[[Options], dict[str, Json]] = no_run_options

    def __post_init__(self) -> None:
        if not re.fullmatch(rf"{self.toolchain.name}\.[a-z0-9][a-z0-9-]*", self.name):
            raise ValueError(
                f"adaptor name {self.name!r}: must be {self.toolchain.name}.<what>, in lower case with dashes"
            )
        if not self.accepts:
            raise ValueError(f"adaptor {self.name}: accepts no format")
        if self.stage is Stage.COMPILE and self.produces not in self.toolchain.runs:
            raise ValueError(
                f"adaptor {self.name}: compiles to {self.produces}, which {self.toolchain.name} cannot run"
            )
        self.options()

    @property
    def segment(self) -> str:
        """The adaptor's segment of a namespace: ``onnxruntime_int8_static``."""
        return re.sub(r"[.-]", "_", self.name)


class Flavor(Value):
    """A source model's files.

    Attributes:
        format: What kind of files they are.
        files: Each file's path in the pulled folder, and its name in a directory of that format.
        interface: ``pytorch`` (tensors in, tensors out) or ``onnx`` (arrays in, arrays out).
        inputs: What the signature says of the inputs; empty when it says nothing.
        outputs: What it says of the outputs.
        artifact: The sealed artifact, when the folder holds a winner of ours.
    """

    format: Format
    files: tuple[tuple[str, str], ...]
    interface: str
    inputs: tuple[TensorSpec, ...] = ()
    outputs: tuple[TensorSpec, ...] = ()
    artifact: Artifact | None = None


class VersionInfo(BaseModel):
    """What a registry knows of a version without downloading it.

    Attributes:
        uri: The URI with the version pinned, such as ``models:/digits/3``.
        name: The registered model's name.
        version: The version or revision.
        aliases: The aliases that point to it.
        tags: The version's tags.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    uri: str
    name: str
    version: str
    aliases: tuple[str, ...] = ()
    tags: dict[str, str] = {}


class Publication(BaseModel):
    """Where a winner went."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    uri: str
    version: str
    alias: str | None


PUBLICATIONS: TypeAdapter[tuple[Publication, ...]] = TypeAdapter(tuple[Publication, ...])
"""Reads what ``publish`` hands on: one publication, or none."""


class Registry(Protocol):
    """A place that versions of models come from and go to."""

    def resolve(self, uri: str) -> VersionInfo:
        """Return what is known of a version, without downloading it."""
        ...

    def pull(self, uri: str, folder: Path) -> VersionInfo:
        """Download the version's files, as the registry holds them, into an empty directory."""
        ...

    def publish(
        self,
        winner: ProvenWinner,
        *,
        name: str,
        tags: Mapping[str, str],
        alias: str | None,
        metrics: Mapping[str, float] | None = None,
    ) -> Publication:
        """Write a new version with all its evidence, or none; the alias is moved last."""
        ...
