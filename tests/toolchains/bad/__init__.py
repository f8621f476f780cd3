"""Deliberately bad adaptors: the conformance suite must catch each of them."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Final

from hone_runtime.contract.adaptor import Adaptor
from hone_runtime.contract.toolchain import Limits, Toolchain
from hone_runtime.values.artifact import Stage
from hone_runtime.values.outcome import FailureClass
from toolchains.toy.adaptor import TOOLCHAIN as TOY

_WORKERS = Path(__file__).parent / "workers"


@dataclass(frozen=True, kw_only=True)
class BadToolchain(Toolchain):
    """A toolchain whose worker file has a name of its own."""

    file: str

    @property
    def worker(self) -> Path:
        """The worker file."""
        return self.folder / self.file


@dataclass(frozen=True, kw_only=True)
class Bad:
    """One bad adaptor.

    Attributes:
        adaptor: The adaptor.
        caught_by: The check that must catch it, and no other.
        failure: The class of the failure that the check must name, where the runner or the verification found it.
    """

    adaptor: Adaptor
    caught_by: str
    failure: FailureClass | None


def _make(name: str, *, caught_by: str, failure: FailureClass | None, runs: bool = False, seconds: float = 600) -> Bad:
    toolchain = BadToolchain(
        name="bad",
        folder=_WORKERS,
        file=f"{name}.py",
        runs=frozenset({"toy"} if runs else ()),
        formats=TOY.formats,
        limits=Limits(seconds=seconds, memory_mb=512, log_kb=64),
        default=False,
    )
    adaptor = Adaptor(
        name=f"bad.{name.replace('_', '-')}",
        version=1,
        toolchain=toolchain,
        stage=Stage.COMPILE if runs else Stage.COMPRESS,
        accepts=frozenset({"toy-source"}),
        produces="toy",
        summary=f"It misbehaves: {name.replace('_', ' ')}.",
        default=False,
    )
    return Bad(adaptor=adaptor, caught_by=caught_by, failure=failure)


BAD: Final = (
    _make("segfaults", caught_by="transforms", failure=FailureClass.CRASH),
    _make("hangs", caught_by="transforms", failure=FailureClass.TIME_OUT, seconds=5),
    _make("grows", caught_by="transforms", failure=FailureClass.OUT_OF_MEMORY),
    _make("grows_in_child", caught_by="transforms", failure=FailureClass.OUT_OF_MEMORY),
    _make("returns_nan", caught_by="finite", failure=FailureClass.NUMERICS, runs=True),
    _make("returns_wrong_shape", caught_by="shapes", failure=FailureClass.BAD_OUTPUT, runs=True),
    _make("shares_memory", caught_by="threads", failure=None, runs=True),
    _make("writes_nothing", caught_by="verifies", failure=FailureClass.BAD_OUTPUT),
    _make("writes_other_format", caught_by="verifies", failure=FailureClass.BAD_OUTPUT),
    _make("writes_into_input", caught_by="input-unchanged", failure=FailureClass.BAD_OUTPUT),
    _make("writes_outside", caught_by="writes-inside", failure=FailureClass.BAD_OUTPUT),
    _make("exits_with_garbage", caught_by="transforms", failure=FailureClass.BAD_OUTPUT),
    _make("prints", caught_by="log", failure=None),
    _make("is_random", caught_by="deterministic", failure=None),
    _make("leaves_process", caught_by="processes", failure=None),
)
"""All of them, with the check that catches each."""

IN_A_RUN: Final = tuple(bad for bad in BAD if bad.caught_by != "threads")
"""Those that a run catches, too: it calls a model from one thread."""

ADAPTORS: Final = tuple(bad.adaptor for bad in BAD)
