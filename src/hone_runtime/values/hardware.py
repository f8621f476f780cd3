"""The value that describes the machine of a measurement."""

from __future__ import annotations

from typing import Annotated

from pydantic import BeforeValidator, Field

from hone_runtime.values.base import Value

_Sorted = Annotated[tuple[str, ...], BeforeValidator(sorted)]


class Hardware(Value):
    """The machine of the measurement."""

    cpu: str = Field(description="The processor's name.")
    cores: int = Field(description="The cores that the run could use.")
    flags: _Sorted = Field((), description="All of its feature flags, as the system names them.")
    instructions: str = Field("", description="Its vector instructions, such as `AVX-512, VNNI, BF16` or `AVX2 only`.")
    gpu: str | None = Field(None, description="The accelerator's name, or None.")
    driver: str | None = Field(None, description="Its driver, or None.")
    os: str = Field(description="The operating system and its kernel.")
    memory_bytes: int | None = Field(None, description="The memory that the run could use.")
    threads: int | None = Field(None, description="The threads that every candidate was given.")

    @property
    def processor(self) -> str:
        """The processor, its vector instructions and its cores, in the form used by every report."""
        instructions = f" ({self.instructions})" if self.instructions else ""
        return f"{self.cpu}{instructions}, {self.cores} cores"
