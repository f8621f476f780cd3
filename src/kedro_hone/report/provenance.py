"""The parts of the evidence that say on what machine, with what packages, data and steps the numbers were made."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from pydantic import Field

from kedro_hone.report.records import Record


class Hardware(Record):
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


class EnvironmentRecord(Record):
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


class DataRecord(Record):
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


class Step(Record):
    """One recorded step, which ``kedro hone replay`` runs again.

    Attributes:
        adaptor: The adaptor's name.
        run: The id of the run that did it; empty where it is the run of the evidence.
        folder: The step's folder, relative to that run's folder.
        seconds: How long it took when it was built.
        cached: Whether this run found it in the store.
        outcome: ``artifact``, ``refused`` or ``failed``.
    """

    adaptor: str
    run: str = ""
    folder: str
    seconds: float
    cached: bool = False
    outcome: Literal["artifact", "refused", "failed"] = "artifact"

    @property
    def name(self) -> str:
        """What ``kedro hone replay`` is given."""
        return Path(self.folder).name


class Counts(Record):
    """How much work made the values of this evidence; nothing is built or validated that was found in the store.

    Attributes:
        builds: Steps that were really run.
        validations: Candidates that were really validated.
        launches: Worker processes in which something was timed.
    """

    builds: int = 0
    validations: int = 0
    launches: int = 0
