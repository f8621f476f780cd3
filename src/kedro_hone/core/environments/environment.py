"""The environment of a toolchain's workers, as a value, and the error for one that cannot be built."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from hone_runtime.errors import HoneError
from hone_runtime.values.base import Value
from hone_runtime.values.outcome import Failed

Origin = Literal["locked", "shared", "named"]
"""Where an interpreter comes from: built from the toolchain's lock, shared with the run's process, or named in the
recipe."""


class Environment(Value):
    """The Python environment of a toolchain's workers.

    Attributes:
        key: Identifies what is installed; part of the keys of the steps.
        own: Whether it was made from the toolchain's lock and is in the store.
        named: Whether the recipe names its interpreter. If neither is true, it is the interpreter that runs this
            process.
        lock_digest: ``sha256:…`` of the toolchain's lock; without a lock, of the versions in it.
        versions: Installed versions by canonical name; for a named interpreter also the version of Python.
        build: Which of the toolchain's builds is installed, such as ``cpu``; empty if it has no builds.
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


def explain_unbuildable(failed: Sequence[Failed]) -> HoneError:
    """Return the error for environments that could not be built, with the reason of each."""
    names = [one.by for one in failed]
    several = len(names) > 1
    what = f"The environment{'s' * several} of {', '.join(names)} cannot be built."
    why = [f"{one.by}: {one.reason}" for one in failed] if several else failed[0].reason
    logs = ", ".join(one.log for one in failed if one.log)
    hint = f"{f'Read {logs}; a' if logs else 'A'} full disk and a missing network are the usual reasons."
    return HoneError("toolchain-unbuildable", what, why=why, hint=hint)
