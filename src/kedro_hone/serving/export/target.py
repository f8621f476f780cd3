"""What an export consists of: the request, the files, and a target that writes them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from hone_runtime.interfaces.tensors import Run
from hone_runtime.signing.policy import Policy
from kedro_hone.serving.export.models import Model
from kedro_hone.serving.winner import ServedWinner

Files = Mapping[PurePosixPath, Path | bytes]
"""Files, or their contents, by their paths below the folder of the export."""


@dataclass(frozen=True, kw_only=True)
class Request:
    """What the user requested besides the winner and the target.

    Attributes:
        max_batch: The largest number of rows that the server may merge into one call; None if it must not merge calls.
        max_delay_ms: How long the server may wait for further rows, in milliseconds.
        storage_uri: Where the exported models will be stored, for targets that write it into their configuration.
        verify: The required signer of the winner; None if no signature is required.
        trusted: Whether the user trusts the author of a winner that is code.
    """

    max_batch: int | None = None
    max_delay_ms: float = 2.0
    storage_uri: str | None = None
    verify: Policy | None = None
    trusted: bool = False


@dataclass(frozen=True, kw_only=True)
class Export:
    """The files of an export, and what its README states besides the winner.

    Attributes:
        files: The files that the target needs, below the folder; the README and the golden rows are added.
        models: The models that the target serves.
        start: How to start the server or open the files, in Markdown.
        port: The server's port for REST; None if the target is no server.
        notes: Differences from the measured winner that the target causes, each a sentence or two.
        open: Opens a model from the folder of its files as the server does, and returns its calls; None if that is the
            winner's own runtime.
        places: For each model that this process can open as written, the folder of its files below the export.
    """

    files: Files
    models: tuple[Model, ...]
    start: str
    port: int | None = None
    notes: tuple[str, ...] = ()
    open: Callable[[Model, Path], tuple[Run, ...]] | None = None
    places: tuple[PurePosixPath, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Target:
    """A server or a runtime that an export is written for.

    Attributes:
        name: The value of ``--to``.
        title: Its name in sentences.
        find_misfit: Returns why it cannot run a winner as requested, as a clause; empty if it can.
        write: Returns the export; called only for a winner that fits.
        unverified: What was never run in the project's tests, as a sentence; empty if all was.
    """

    name: str
    title: str
    find_misfit: Callable[[ServedWinner, Request], str]
    write: Callable[[ServedWinner, Request], Export]
    unverified: str = ""
