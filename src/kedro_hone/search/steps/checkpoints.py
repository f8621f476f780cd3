"""Checkpoints of trainings: stored next to the store until the step ends, so that a later run goes on from there."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from hone_runtime.contract.adaptor import Adaptor, Need
from hone_runtime.text import open_logger
from hone_runtime.values.artifact import TRAINED, Artifact
from hone_runtime.values.outcome import Outcome
from hone_runtime.values.regular import open_regular
from kedro_hone.core.store.artifacts import Store
from kedro_hone.core.store.steps import StepRecord

logger = open_logger(__name__)

FOLDER: Final = "training"
UNFINISHED: Final = "unfinished"
"""The key of a training's notes that is true if its time ended before its epochs."""


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
    _copy(stored, copy)
    try:
        yield copy
    finally:
        _copy(copy, stored)


def _copy(source: Path, target: Path) -> None:
    """Copy a regular file, if there is one; the target is whole or what it was."""
    target.parent.mkdir(parents=True, exist_ok=True)
    part = target.with_name(f"{target.name}.part-{os.getpid()}")
    try:
        with open_regular(source) as stream, part.open("wb") as copied:
            shutil.copyfileobj(stream, copied)
        part.replace(target)
    except FileNotFoundError:
        return  # training starts anew
    except (OSError, ValueError) as error:  # a full disk, or what a worker left in its place
        logger.warning("warning   a checkpoint is lost: %s", error)
        part.unlink(missing_ok=True)


def goes_on(store: Store, key: str, found: StepRecord, *, run: str) -> bool:
    """Return whether a training that an earlier run had no time to finish goes on in a run."""
    unfinished = is_unfinished(found.outcome, found.facts.adaptor) and _find(store, key).is_file()
    return unfinished and found.facts.run != run


def remove_checkpoint(store: Store, key: str) -> None:
    """Remove the checkpoint of a step that ended."""
    _find(store, key).unlink(missing_ok=True)


def is_unfinished(outcome: Outcome, adaptor: str) -> bool:
    """Return whether an outcome is a network whose training by an adaptor can go on."""
    notes = outcome.metadata.get(TRAINED, {}) if isinstance(outcome, Artifact) else {}
    return bool(notes.get(adaptor, {}).get(UNFINISHED))


def _find(store: Store, key: str) -> Path:
    return store.notes / FOLDER / f"{key}.pt"
