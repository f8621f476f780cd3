"""The reaction if a winner's outputs here differ from those where it was measured."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final, Literal

from hone_runtime.contract.catalogue import read_catalogue
from hone_runtime.contract.hardware import read_host
from hone_runtime.contract.plugins import describe_exception
from hone_runtime.errors import HoneError
from hone_runtime.learner.checks import ArgumentError
from hone_runtime.learner.download import Download
from hone_runtime.learner.golden import Golden
from hone_runtime.learner.model import Learner
from hone_runtime.learner.sources import fetch_source
from hone_runtime.text import begin_sentence, clean_text
from hone_runtime.values.artifact import Artifact

OnMismatch = Literal["fallback", "warn", "refuse"]
CHOICES: Final[tuple[OnMismatch, ...]] = ("fallback", "warn", "refuse")


@dataclass(frozen=True, kw_only=True)
class Loading:
    """How to open a winner, or its source instead.

    Attributes:
        download: The winner's files. It has no version if the evidence is signed: then only the evidence identifies
            the source. If it is vouched for, code of the source may be opened, too.
        open: Opens an artifact from a folder with its files, with the options of ``load``'s caller.
        stack: Closed when the learner is garbage-collected.
    """

    download: Download
    on_mismatch: OnMismatch
    open: Callable[[Artifact, Path], Learner]
    stack: ExitStack

    def load(self) -> Learner:
        """Open a winner and compare its outputs for the golden rows; if they differ, react as the caller chose.

        Raises:
            HoneError: ``winner-differs``, or as in ``Learner``.
            ImportError: A runtime is not installed.
        """
        artifact, files, golden = self.download.artifact, self.download.files, self.download.read_golden()
        if golden is None:
            return self.open(artifact, files)
        learner, difference = self._try(artifact, files, golden)
        if learner is not None and not difference:
            return learner
        machine = golden.format_other_machine(read_host())
        why = clean_text(f"{begin_sentence(difference)}.{machine}")
        if learner is None or self.on_mismatch != "warn":
            learner = self._fall_back(golden, why)
            why += clean_text(f" In its place, its source is loaded: {learner.source_uri}.")
        warnings.warn(
            f"The winner's outputs here differ from its outputs where it was measured. {why}",
            RuntimeWarning,
            stacklevel=4,
        )
        return learner

    def _try(self, artifact: Artifact, files: Path, golden: Golden) -> tuple[Learner | None, str]:
        """Return the winner, or None if it cannot be opened here, and how its outputs differ from the stored ones."""
        if read_catalogue().is_native(artifact.format) and (missing := set(golden.flags) - read_host().flags):
            names = ", ".join(sorted(missing)[:5])
            return None, f"it is machine code for a processor with {names}, which this one has not"
        learner = None
        try:
            learner = self.open(artifact, files)
            return learner, golden.find_difference(*learner.list_runs(), host=read_host())
        except (HoneError, ImportError, ArgumentError):
            raise
        except Exception as error:  # noqa: BLE001 - runtimes raise anything; it is shown, not lost
            return None, f"it does not run here: {describe_exception(error)}"

    def _fall_back(self, golden: Golden, why: str) -> Learner:
        if self.on_mismatch != "fallback":
            raise _explain(why)
        try:
            place = Path(self.stack.enter_context(TemporaryDirectory(prefix="kedro-hone-source-")))
            uri, source, files = fetch_source(self.download, golden, place)
            learner = self.open(source, files)
        except Exception as error:  # on any error there is nothing else to load
            raise _explain(f"{why} Its source cannot take its place: {describe_exception(error)}") from error
        learner.source_uri, learner.fallback_reason = uri, why
        return learner


def _explain(why: str) -> HoneError:
    return HoneError(
        "winner-differs",
        "The winner's outputs here differ from its outputs where it was measured.",
        why=why,
        hint="Optimize the source on this machine; or load it with on_mismatch='warn' if you checked its outputs.",
    )
