"""Toolchains: an external library with its locked environment, its worker and its limits."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from types import MappingProxyType
from typing import Final

from pydantic import BaseModel, ConfigDict, ValidationError

from hone_runtime.values.base import Format, Json

UNTRACKED: Final[Mapping[str, str]] = MappingProxyType(
    {"ORT_DISABLE_TELEMETRY": "1", "HF_HUB_DISABLE_TELEMETRY": "1", "NM_DISABLE_ANALYTICS": "1"}
)
"""Variables that disable the telemetry of toolchains; a value that a person has set is not changed.


They are set before a toolchain is imported. ONNX Runtime on Linux writes a ``deviceid`` below the home folder on
import (seen with 1.31.1, which reads the first variable only then). Adaptors of other toolchains import it as well.
"""


class RunOptions(BaseModel):
    """Base of a toolchain's run options: the options that its runtime accepts when it opens an artifact.

    They come with an artifact, which may be untrusted: none may be a path, a library or free text. All
    have defaults.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)


class Licence(StrEnum):
    """The terms under which a toolchain's results may be used."""

    OPEN = "open"
    EVALUATION = "evaluation"
    """May race, is never published, and is off unless the recipe selects it by name."""


class Verification(StrEnum):
    """How a toolchain was tested."""

    TESTED = "tested"
    """Its adaptors run in every ``make test``, with a real model."""
    NIGHTLY = "tested apart"
    """They run every night, by ``make test-toolchains``: the environment takes gigabytes."""
    BY_HAND = "tried by hand"
    """Their own tests and the conformance suite passed on a machine that is not available to the project's tests."""
    UNVERIFIED = "unverified"
    """Written from the toolchain's documentation; the toolchain itself never ran in the project's tests."""


@dataclass(frozen=True, kw_only=True)
class Limits:
    """Limits of one worker.

    Attributes:
        seconds: Wall-clock time of one step.
        memory_mb: Resident memory of the worker and all its children, in MiB.
        log_kb: How much of its output is retained, in KiB: the beginning and the end.
        processes: The largest number of processes at once, with its children.
    """

    seconds: float = 600.0
    memory_mb: int = 8192
    log_kb: int = 1024
    processes: int = 512

    @property
    def file_bytes(self) -> int:
        """The size of the largest file that it may write, in bytes.

        A model that fits its memory also fits this limit, even with sparse parts.
        """
        return max(2 * self.memory_mb << 20, 16 << 30)


_RESERVED: Final = {"programs", "runtime", "worker"}
"""A toolchain's package is named ``hone_<toolchain>``; these names are taken."""


@dataclass(frozen=True, kw_only=True)
class Toolchain:
    """An external library: its locked environment, its worker, and the formats that it can run.

    Attributes:
        name: Unique, a valid identifier such as ``onnxruntime``.
        folder: The folder of ``worker/``, ``requirements.in`` and ``requirements.lock``.
        title: Its display name, such as ``ONNX Runtime``; if empty, the same as ``name``.
        verification: How it was tested.
        modules: The modules that its packages install. Only a worker and a learner may import them.
        with_torch: Whether its environment has PyTorch; then `make lock` writes two locks for PyTorch next to its own.
        with_cuda: Whether its own lock includes NVIDIA's packages.
        from_source: Packages of its environment that are available as source archives only.
        runs: The formats that its worker can ``load``.
        native: Those formats of ``runs`` that contain machine code or a program: opening one runs code of its author.
            They are opened only if the user trusts them or their signature.
        generated: Those formats of ``runs`` from which the runtime generates code and runs it. Every entry is checked
            first, so that an isolated worker may open a source of such a format. A process of the user opens a winner
            of such a format only under the conditions of a native one.
        data: Those formats of ``runs`` that are data: opening one runs no code of its author. All others count as code
            in the user's process, so a format is code unless its toolchain lists it here.
        reads: The notes (keys of ``Artifact.metadata``) of a data model that its worker's ``load`` reads. The worker is
            given no others.
        formats: Additional formats, beyond ``FORMATS``: name to the files that must exist (glob patterns).
        environment: Variables set for its worker.
        run_options: The options that its runtime accepts, with their values; all others are refused. Its adaptors set
            no other options.
        extra: The extra of the distribution that installs the *runtime* part, for users of the winner.
        runtime_requirements: The requirements of a process that only loads and runs its artifacts.
        default: Whether recipes use it without naming it.
        survives_fork: Whether a model can be opened in a process that was forked from one with open models. It cannot
            if all models of a process share the runtime's threads.
        takes_text: Whether its adaptors accept models with text among their inputs or outputs; if not, such models are
            refused.
        remembers: Whether its worker measures while it works, and stores the results as lines of a file. Its steps then
            run alone, on the measuring machine.
        uses: The toolchains that its own worker imports.
        lockable: Whether package indexes have the packages that it needs. If not, no lock can be made: it works only in
            an interpreter that the recipe names, and no message suggests installing a package of its name.
        note: One sentence for the list of toolchains, such as the terms of an evaluation licence.
    """

    name: str
    folder: Path
    title: str = ""
    verification: Verification = Verification.UNVERIFIED
    modules: tuple[str, ...] = ()
    with_torch: bool = False
    with_cuda: bool = False
    from_source: tuple[str, ...] = ()
    runs: frozenset[Format] = frozenset()
    native: frozenset[Format] = frozenset()
    generated: frozenset[Format] = frozenset()
    data: frozenset[Format] = frozenset()
    reads: frozenset[str] = frozenset()
    formats: Mapping[Format, tuple[str, ...]] = field(default_factory=dict)
    environment: Mapping[str, str] = field(default_factory=dict)
    licence: Licence = Licence.OPEN
    limits: Limits = field(default_factory=Limits)
    run_options: type[RunOptions] = RunOptions
    extra: str | None = None
    runtime_requirements: tuple[str, ...] = ()
    default: bool = True
    survives_fork: bool = False
    takes_text: bool = False
    remembers: bool = False
    uses: tuple[str, ...] = ()
    lockable: bool = True
    note: str = ""

    def __post_init__(self) -> None:
        if not re.fullmatch(r"[a-z][a-z0-9_]*", self.name):
            raise ValueError(f"toolchain name {self.name!r}: use lower-case letters, digits and underscores")
        if self.name in _RESERVED:
            raise ValueError(f"toolchain name {self.name!r}: hone_{self.name} is a package of kedro-hone's own")
        self.run_options()
        object.__setattr__(self, "title", self.title or self.name)
        if odd := (self.native | self.generated) - self.runs:
            raise ValueError(f"toolchain {self.name}: it does not run its native or generated formats {sorted(odd)}")
        if odd := (self.native | self.generated) & self.data:
            raise ValueError(f"toolchain {self.name}: {sorted(odd)} cannot be both code and data")

    @property
    def code(self) -> frozenset[Format]:
        """The formats that are code to the process that opens them: all in ``runs`` that are not in ``data``."""
        return self.runs - self.data

    def find_bad_option(self, options: Mapping[str, Json]) -> str | None:
        """Return the first run option that its runtime does not accept, as a reason; None if it accepts all."""
        try:
            self.run_options.model_validate(options)
        except ValidationError as error:
            first = error.errors(include_url=False)[0]
            name = ".".join(map(str, first["loc"])) or "combination"  # no name if the author's check compares several
            if first["type"] != "extra_forbidden":
                return f"the run option {name} of {self.name} is {first['input']!r:.80}: {first['msg']}"
            return f"{self.name} takes no run option {name!r:.80}"
        return None

    @property
    def worker(self) -> Path:
        """The package with the toolchain's own code: everything in its folder runs in the toolchain's process.

        It is ``worker/hone_<name>``, which workers that use it import by that name. A folder ``worker`` without such a
        package is one itself, which no other worker can import.
        """
        package = self.folder / "worker" / f"hone_{self.name}" / "__init__.py"
        return package if package.is_file() else self.folder / "worker" / "__init__.py"

    @property
    def lock(self) -> Path:
        """The pinned requirements of the environment."""
        return self.folder / "requirements.lock"

    @property
    def builds(self) -> tuple[Path, ...]:
        """The locks ``requirements-*.lock``, by name, one of which is installed in addition.

        It is the first one whose packages are found.
        """
        return tuple(sorted(self.folder.glob("requirements-*.lock")))

    @property
    def sources(self) -> tuple[Path, ...]:
        """The lock of packages that are available as source archives only, ``sources.lock``, if it exists.

        It is installed after ``requirements.lock``, and built by the setuptools of that lock.
        """
        path = self.folder / "sources.lock"
        return (path,) if path.exists() else ()

    @property
    def requirements(self) -> Path:
        """The version ranges that an environment must satisfy."""
        return self.folder / "requirements.in"
