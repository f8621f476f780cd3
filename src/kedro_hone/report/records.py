"""The parts of the evidence that join several values; a measured value is part of it as it is."""

from __future__ import annotations

from pydantic import Field

from kedro_hone.core.values.base import Json, Value
from kedro_hone.core.values.measurement import Checks, Interval, Latency, Status


class SourceRecord(Value):
    """The model that was optimized.

    Attributes:
        uri: Where it came from, with the version pinned.
        version: The registry's version, or the revision; empty for a plain path.
        format: What kind of files it is.
        digest: ``sha256:…`` of its artifact.
        baseline: How it was run to be measured against, in words.
    """

    uri: str
    version: str = ""
    format: str
    digest: str
    baseline: str = ""


class WinnerRecord(Value):
    """The candidate that won.

    Attributes:
        candidate: Its id.
        route: The adaptors that made it, in order; empty where the source won.
        format: What kind of files it is.
        digest: ``sha256:…`` of its artifact.
        runtime: The toolchain that opens it.
        path: Where it is on the machine of the run, relative to the project's folder.
    """

    candidate: str
    route: tuple[str, ...]
    format: str
    digest: str
    runtime: str = ""
    path: str = ""


class LatencyRecord(Value):
    """Times before and after, at one shape.

    Attributes:
        source: The source's times.
        winner: The winner's times, or None where the source stays.
    """

    source: Latency
    winner: Latency | None = None


class CandidateRecord(Checks):
    """One candidate: its validation and its result in the race, joined.

    Attributes:
        id: The namespace that ends its route; ``source`` for the source model itself.
        route: The adaptors in order; empty for the source model itself.
        status: What became of it.
        reason: Why it was dropped, refused, not tried, or failed; empty when it was measured to the end.
        failure_class: The class of the failure, or None.
        latency: Its times in the race, one for each shape.
        ratios: Its speed-up in the race at each shape: the search's estimate, never the result.
        speedup: The interval of the race's objective, or None.
        build_seconds: The time that its own steps took when they were built.
        cached: Whether nothing of it had to be built or validated in this run.
        rounds: How many rounds of the race it was measured in.
        machine_options: Options that the machine decides where the recipe does not, as they were, by adaptor.
    """

    id: str
    route: tuple[str, ...]
    status: Status
    reason: str = ""
    failure_class: str | None = None
    latency: tuple[Latency, ...] = ()
    ratios: dict[str, float] = Field(default_factory=dict)
    speedup: Interval | None = None
    build_seconds: float = 0.0
    cached: bool = False
    rounds: int = 0
    machine_options: dict[str, dict[str, Json]] = Field(default_factory=dict)


class RaceRecord(Value):
    """How the race went.

    Attributes:
        rounds: How many rounds there were.
        seconds: How long it took, without the wait for another run's measuring.
        budget_ended: Whether the budget ended it, rather than that nothing was left to decide.
        timings: The file with the raw timings, also those of the confirmation, relative to the run's folder.
        other_load: The share of the cores' time that other processes took meanwhile, 0 to 1; None where not known.
    """

    rounds: int
    seconds: float
    budget_ended: bool = False
    timings: str
    other_load: float | None = None


class Hardware(Value):
    """The machine that measured.

    Attributes:
        cpu: The processor's name.
        cores: The cores that the run could use.
        flags: All of its feature flags, as the system names them.
        instructions: The names of its vector instructions, such as ``AVX-512, VNNI, BF16`` or ``AVX2 only``.
        gpu: The accelerator's name, or None.
        driver: Its driver, or None.
        os: The operating system and its kernel.
        memory_bytes: The memory that the run could use.
        threads: The threads that every candidate was given.
    """

    cpu: str
    cores: int
    flags: tuple[str, ...] = ()
    instructions: str = ""
    gpu: str | None = None
    driver: str | None = None
    os: str
    memory_bytes: int | None = None
    threads: int | None = None

    @property
    def processor(self) -> str:
        """The processor, its vector instructions and its cores, as every report names them."""
        instructions = f" ({self.instructions})" if self.instructions else ""
        return f"{self.cpu}{instructions}, {self.cores} cores"


class EnvironmentRecord(Value):
    """The locked environment of one toolchain.

    Attributes:
        toolchain: The toolchain's name.
        key: The environment's key.
        lock_digest: ``sha256:…`` of the lock.
        versions: The installed version of each package that matters.
    """

    toolchain: str
    key: str
    lock_digest: str
    versions: dict[str, str] = Field(default_factory=dict)


class Counts(Value):
    """How much work made the values of this evidence; what was found in the store was not built or validated again.

    Attributes:
        builds: Steps that were really run.
        validations: Candidates that were really validated.
        launches: Worker processes in which something was timed.
    """

    builds: int = 0
    validations: int = 0
    launches: int = 0
