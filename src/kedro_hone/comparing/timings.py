"""Raw timings: taken in rounds, summarized, kept in the store by the nodes that measure, and part of the evidence."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

from kedro_hone.core.contract.proof import TIMINGS
from kedro_hone.core.errors import HoneError
from kedro_hone.core.stats.speed import percentiles
from kedro_hone.core.store.artifacts import Store
from kedro_hone.core.values.digest import digest_file
from kedro_hone.core.values.measurement import Latency
from kedro_hone.core.values.outcome import Failed

SOURCE = "source"
"""The id of the source model among the candidates."""


@dataclass
class Timings:
    """What was measured in rounds.

    Attributes:
        rounds: For each entrant and shape, one list of calls for each round, in nanoseconds.
        starts: For each entrant, how many rounds had been measured when it joined.
        failures: Entrants that could not be launched, or failed while they were measured.
        count: How many rounds there were.
        workers: How many worker processes were launched.
    """

    rounds: dict[str, dict[str, list[list[int]]]] = field(default_factory=dict)
    starts: dict[str, int] = field(default_factory=dict)
    failures: dict[str, Failed] = field(default_factory=dict)
    count: int = 0
    workers: int = 0

    def add(self, entrant: str, shape: str, times: Sequence[int]) -> None:
        """Add the calls of one round."""
        self.starts.setdefault(entrant, self.count)
        self.rounds.setdefault(entrant, {}).setdefault(shape, []).append(list(times))

    def medians(self, entrant: str, shape: str) -> list[float]:
        """Return the median call of each round, in nanoseconds."""
        return [median(times) for times in self.rounds.get(entrant, {}).get(shape, [])]

    def summarize(self, entrant: str) -> tuple[Latency, ...]:
        """Return the times of one call over all rounds, at each shape."""
        shapes = self.rounds.get(entrant, {})
        return tuple(percentiles(shape, [*chain.from_iterable(rounds)]) for shape, rounds in shapes.items())

    def keep(self, store: Store, prefix: str) -> str:
        """Keep all times in the store, and return the key of the tree that holds them, for ``write_timings``.

        For each entrant and shape, ``<prefix>/<entrant>/<shape>`` has the nanoseconds of all calls, and
        ``…/calls`` how many of them each round had. The prefix is ``race`` or ``confirm``.
        """
        arrays: dict[str, Any] = {}
        for name, shapes in self.rounds.items():
            for shape, rounds in shapes.items():
                arrays[f"{prefix}/{name}/{shape}"] = np.concatenate([np.asarray(row, dtype=np.int64) for row in rounds])
                arrays[f"{prefix}/{name}/{shape}/calls"] = np.asarray([len(row) for row in rounds], dtype=np.int64)
        with store.workspace() as folder:
            np.savez_compressed(folder / TIMINGS, allow_pickle=False, **arrays)
            key = digest_file(folder / TIMINGS)
            store.keep_tree(key, folder)
        return key


def write_timings(path: Path, keys: Mapping[str, str], store: Store) -> None:
    """Write the raw timings of several nodes, by their keys in the store, into one ``.npz``.

    Raises:
        HoneError: ``evidence-incomplete``: the store has lost some of them.
    """
    arrays: dict[str, Any] = {}
    for node, key in keys.items():
        folder = store.find_tree(key)
        if folder is None:
            raise HoneError(
                "evidence-incomplete",
                f"The raw timings of the node {node} are not in the store.",
                why="They are part of the evidence, and the store was emptied or damaged since they were measured.",
                hint=f"Measure again: `kedro run --pipelines compare --from-nodes {node}`.",
            )
        with np.load(folder / TIMINGS, allow_pickle=False) as archive:
            arrays |= archive
    temporary = path.with_name(f".{path.name}")
    np.savez_compressed(temporary, allow_pickle=False, **arrays)
    temporary.replace(path)
