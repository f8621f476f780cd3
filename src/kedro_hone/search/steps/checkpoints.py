"""Checkpoints of trainings: stored next to the store until the step ends, so that a later run goes on from there."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

from hone_runtime.contract.adaptor import Adaptor, Need
from hone_runtime.values.artifact import Artifact
from hone_runtime.values.outcome import Outcome
from hone_runtime.values.regular import read_regular
from kedro_hone.core.store.artifacts import Store
from kedro_hone.core.store.disk import write_file
from kedro_hone.search.steps.inheritance import TRAINED

FOLDER: Final = "training"
UNFINISHED: Final = "unfinished"
"""The key of a training's notes that is true if its time ended before its epochs."""
MOST_BYTES: Final = 4 << 30
"""The most bytes of a checkpoint: the weights four times."""


@contextmanager
def checkout_checkpoint(store: Store, adaptor: Adaptor, key: str, scratch: Path) -> Iterator[Path | None]:
    """Yield the path where a worker finds the checkpoint of its training, and leaves the next one.

    What it left is stored, however the worker ended.

    Args:
        store: The store next to the checkpoints.
        adaptor: The step's adaptor; None is yielded if it trains nothing.
        key: The key of the step.
        scratch: A folder that the worker can write to.
    """
    if Need.TRAINING_DATA not in adaptor.needs:
        yield None
        return
    stored, copy = _find(store, key), scratch / "checkpoint"
    scratch.mkdir(parents=True, exist_ok=True)
    with suppress(OSError, ValueError):  # without one, training starts anew
        copy.write_bytes(read_regular(stored, limit=MOST_BYTES))
    try:
        yield copy
    finally:
        with suppress(OSError, ValueError):  # none was written, or something else was left in its place
            content = read_regular(copy, limit=MOST_BYTES)
            stored.parent.mkdir(parents=True, exist_ok=True)
            write_file(stored, content)


def remove_checkpoint(store: Store, key: str) -> None:
    """Remove the checkpoint of a step that ended."""
    _find(store, key).unlink(missing_ok=True)


def is_unfinished(outcome: Outcome, adaptor: str) -> bool:
    """Return whether an outcome is a network whose training by an adaptor can go on."""
    notes = outcome.metadata.get(TRAINED, {}) if isinstance(outcome, Artifact) else {}
    return bool(notes.get(adaptor, {}).get(UNFINISHED))


def _find(store: Store, key: str) -> Path:
    return store.notes / FOLDER / f"{key}.pt"
