"""The progress of a training: the last epoch in the log of its step."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import Final

_EPOCH: Final = "epoch "
"""The beginning of a line for each epoch in the logs of steps that train."""
_TAIL: Final = 4096
"""How many bytes at the end of a log are read."""


def describe_training(steps: Path) -> str:
    """Return the adaptor of the newest step and its last epoch; empty if it has none, as before its first one.

    Args:
        steps: The folder of a run's steps, each ``<n>-<adaptor>``.
    """
    folder = max(steps.glob("*-*"), key=lambda one: int(one.name.partition("-")[0]), default=None)
    if folder is None or not (epoch := _read_epoch(folder / "log")):
        return ""
    return f"{folder.name.partition('-')[2]}: {epoch}"


def _read_epoch(log: Path) -> str:
    with suppress(OSError), log.open("rb") as stream:
        stream.seek(max(0, log.stat().st_size - _TAIL))
        lines = stream.read().decode("utf-8", "replace").splitlines()
        return next((line for line in reversed(lines) if line.startswith(_EPOCH)), "")
    return ""
