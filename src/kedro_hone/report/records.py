"""The parts of the evidence that join several values; a measured value is part of it as it is."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from pydantic import Field

from kedro_hone.core.values.base import Json, Value
from kedro_hone.core.values.measurement import Interval, Latency, Quality, Speedup, Status


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


class DecidingSpeedup(Speedup):
    """The speed-up that the verdict rests on; the gate divides ``ratio.low`` by the noise floor.

    Attributes:
        baseline: What it was measured against, in words.
    """

    baseline: str


class LatencyRecord(Value):
    """Times before and after, at one shape.

    Attributes:
        source: The source's times.
        winner: The winner's times, or None where the source stays.
    """

    source: Latency
    winner: Latency | None = None


class GateQuality(Quality):
    """One metric of one finalist on the gate split.

    Attributes:
        id: The finalist's id.
        provable: The smallest limit that so many rows could prove with nothing lost, or None where it is not known.
    """

    id: str
    provable: float | None = None


class CandidateRecord(Value):
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
        quality: Its metric on the search split, or None.
        largest_error: Largest absolute difference of its outputs from the source's, over the source's largest output;
            None where it was not compared.
        size_bytes: The artifact's files.
        cold_start_ms: From the start of loading to the first prediction.
        peak_memory_bytes: Resident memory of its worker at its highest.
        build_seconds: The time that its own steps took when they were built.
        cached: Whether nothing of it had to be built or validated in this run.
        rounds: How many rounds of the race it was measured in.
        publishable: False where the licence of its runtime forbids publishing it.
        machine_options: Options that the machine decides where the recipe does not, as they were, by adaptor.
        note: Anything else that a reader must know, such as that licence.
    """

    id: str
    route: tuple[str, ...]
    status: Status
    reason: str = ""
    failure_class: str | None = None
    latency: tuple[Latency, ...] = ()
    ratios: dict[str, float] = Field(default_factory=dict)
    speedup: Interval | None = None
    quality: Quality | None = None
    largest_error: float | None = None
    size_bytes: int | None = None
    cold_start_ms: float | None = None
    peak_memory_bytes: int | None = None
    build_seconds: float = 0.0
    cached: bool = False
    rounds: int = 0
    publishable: bool = True
    machine_options: dict[str, dict[str, Json]] = Field(default_factory=dict)
    note: str = ""


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


class DataRecord(Value):
    """One split of the data.

    Attributes:
        split: ``calibration``, ``search`` or ``gate``.
        path: The tracked path.
        md5: The content's hash, as DVC knows it; empty where it is not tracked.
        rev: The revision of the repository that it was read at; empty for the working tree.
        n: The number of rows.
    """

    split: str
    path: str
    md5: str = ""
    rev: str = ""
    n: int


class ReplayableStep(Value):
    """One step of a route that was run, which ``kedro hone replay`` runs again.

    Attributes:
        adaptor: The adaptor's name.
        run: The id of the run that did it; empty where it is the run of the evidence.
        folder: The step's folder, relative to that run's folder.
        seconds: How long it took when it was built.
        outcome: ``artifact``, ``refused`` or ``failed``.
    """

    adaptor: str
    run: str = ""
    folder: str
    seconds: float
    outcome: Literal["artifact", "refused", "failed"] = "artifact"

    @property
    def name(self) -> str:
        """What ``kedro hone replay`` is given."""
        return Path(self.folder).name


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
