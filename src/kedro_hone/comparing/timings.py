"""Raw timings in the store: made by the nodes that measure, written into the evidence by the report."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kedro_hone.core.contract.proof import SAMPLES
from kedro_hone.core.measuring.rounds import Timings
from kedro_hone.core.store.artifacts import Store
from kedro_hone.core.values.digest import digest_file
from kedro_hone.core.values.outcome import Failed


def count_workers(entered: Mapping[str, object], failures: Mapping[str, Failed]) -> int:
    """Return how many of those that were to be launched had a worker process: all but those without an environment."""
    return len(entered) + sum(failed.log is not None for failed in failures.values())


def keep_timings(store: Store, prefix: str, timings: Timings) -> str:
    """Keep the raw timings in the store: one array of nanoseconds for each candidate, shape and round.

    Args:
        store: The artifact store.
        prefix: ``race`` or ``confirm``: the first part of every array's name.
        timings: What was measured.

    Returns:
        The key of the tree that holds them, for ``read_timings``.
    """
    arrays: dict[str, Any] = {}
    for name, shapes in timings.rounds.items():
        for shape, rounds in shapes.items():
            arrays[f"{prefix}/{name}/{shape}"] = np.concatenate([np.asarray(calls, dtype=np.int64) for calls in rounds])
            arrays[f"{prefix}/{name}/{shape}/calls"] = np.asarray([len(calls) for calls in rounds], dtype=np.int64)
    with store.workspace() as folder:
        np.savez_compressed(folder / SAMPLES, allow_pickle=False, **arrays)
        key = digest_file(folder / SAMPLES)
        store.keep_tree(key, folder)
    return key


def read_timings(store: Store, key: str) -> dict[str, NDArray[np.int64]] | None:
    """Return the raw timings that ``keep_timings`` kept, or None when the store has lost them.

    Args:
        store: The artifact store.
        key: From ``keep_timings``.
    """
    folder = store.find_tree(key)
    if folder is None:
        return None
    with np.load(folder / SAMPLES, allow_pickle=False) as archive:
        return {name: archive[name] for name in archive.files}
