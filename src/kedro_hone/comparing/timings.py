"""Raw timings: kept in the store by the nodes that measure, summarized, and written into the evidence by the report."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kedro_hone.core import stats
from kedro_hone.core.contract.proof import TIMINGS
from kedro_hone.core.errors import HoneError
from kedro_hone.core.measuring.rounds import Timings
from kedro_hone.core.store.artifacts import Store
from kedro_hone.core.values.digest import digest_file
from kedro_hone.core.values.measurement import Latency
from kedro_hone.core.values.outcome import Failed

SOURCE = "source"
"""The id of the source model among the candidates."""


def count_workers(entered: Mapping[str, object], failures: Mapping[str, Failed]) -> int:
    """Return how many of those that were to be launched had a worker process: all but those without an environment."""
    return len(entered) + sum(failed.log is not None for failed in failures.values())


def keep_timings(store: Store, prefix: str, timings: Timings) -> str:
    """Keep the raw timings in the store, and return the key of the tree that holds them, for ``read_timings``.

    It has an array of nanoseconds for each candidate and shape, and one of how many calls each round had. The prefix
    (``race`` or ``confirm``) is the first part of every array's name.
    """
    arrays: dict[str, Any] = {}
    for name, shapes in timings.rounds.items():
        for shape, rounds in shapes.items():
            arrays[f"{prefix}/{name}/{shape}"] = np.concatenate([np.asarray(calls, dtype=np.int64) for calls in rounds])
            arrays[f"{prefix}/{name}/{shape}/calls"] = np.asarray([len(calls) for calls in rounds], dtype=np.int64)
    with store.workspace() as folder:
        np.savez_compressed(folder / TIMINGS, allow_pickle=False, **arrays)
        key = digest_file(folder / TIMINGS)
        store.keep_tree(key, folder)
    return key


def read_timings(store: Store, key: str) -> dict[str, NDArray[np.int64]] | None:
    """Return the raw timings that ``keep_timings`` kept under a key, or None when the store has lost them."""
    folder = store.find_tree(key)
    if folder is None:
        return None
    with np.load(folder / TIMINGS, allow_pickle=False) as archive:
        return {name: archive[name] for name in archive.files}


def summarize_latency(timings: Timings, name: str, shapes: Sequence[str]) -> tuple[Latency, ...]:
    """Return the times of one call of a candidate over all rounds, at each shape at which there are calls."""
    rows = []
    for shape in shapes:
        calls = timings.calls(name, shape)
        if calls:
            found = stats.percentiles(calls)
            rows.append(
                Latency(shape=shape, n=len(calls), p50_ms=found.p50_ms, p90_ms=found.p90_ms, p99_ms=found.p99_ms)
            )
    return tuple(rows)


def write_timings(path: Path, keys: Mapping[str, str], store: Store) -> None:
    """Write the raw timings of several nodes, by their keys in the store, into one ``.npz``.

    Raises:
        HoneError: ``evidence-incomplete``: the store has lost some of them.
    """
    arrays: dict[str, NDArray[np.int64]] = {}
    for node, key in keys.items():
        known = read_timings(store, key)
        if known is None:
            raise HoneError(
                "evidence-incomplete",
                f"The raw timings of the node {node} are not in the store.",
                why="They are part of the evidence, and the store was emptied or damaged since they were measured.",
                hint=f"Measure again: `kedro run --pipelines compare --from-nodes {node}`.",
            )
        arrays |= known
    temporary = path.with_name(f".{path.name}")
    np.savez_compressed(temporary, allow_pickle=False, **arrays)
    temporary.replace(path)
