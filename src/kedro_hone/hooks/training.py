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
    """Return the adaptor of the newest step with an epoch in its log, and its last epoch; empty if absent.

    Args:
        steps: The folder of a run's steps, each ``<n>-<adaptor>``.
    """
    with suppress(OSError):
        for folder in sorted(steps.glob("*-*"), reverse=True):
            if epoch := _read_epoch(folder / "log"):
                return f"{folder.name.partition('-')[2]}: {epoch}"
    return ""


def _read_epoch(log: Path) -> str:
    with suppress(OSError), log.open("rb") as stream:
        stream.seek(max(0, log.stat().st_size - _TAIL))
        lines = stream.read().decode("utf-8", "replace").splitlines()
        return next((line for line in reversed(lines) if line.startswith(_EPOCH)), "")
    return ""
