"""The environment of a toolchain's workers, as a value."""

from __future__ import annotations

from typing import Literal

from hone_runtime.values.base import Value

Origin = Literal["locked", "shared", "named"]
"""Where an interpreter comes from: made from the toolchain's lock, that of the run's own process, or the recipe's."""


class Environment(Value):
    """The Python environment of a toolchain's workers.

    Attributes:
        key: Identifies what is installed; part of the keys of the steps.
        own: Whether it was made from the toolchain's lock and is in the store.
        named: Whether the recipe names its interpreter; without either it is the interpreter that runs this process.
        lock_digest: ``sha256:…`` of the toolchain's lock; where no lock made it, of the versions in it.
        versions: What is installed, by canonical name; of a named one that of Python, too.
        build: Which of the toolchain's builds is installed, such as ``cpu``; empty where it has none.
    """

    toolchain: str
    key: str
    python: str
    own: bool
    named: bool = False
    lock_digest: str
    versions: dict[str, str]
    build: str = ""

    @property
    def origin(self) -> Origin:
        """Where its interpreter comes from."""
        if self.named:
            return "named"
        return "locked" if self.own else "shared"
