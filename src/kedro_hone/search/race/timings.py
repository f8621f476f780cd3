"""Raw timings: measured in rounds, summarized, stored by the nodes that measure, and part of the evidence."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

from hone_runtime.contract.proof import TIMINGS
from hone_runtime.errors import HoneError
from hone_runtime.values.digest import digest_file
from hone_runtime.values.measurement import Latency
from hone_runtime.values.outcome import Failed
from kedro_hone.core.stats.speed import percentiles
from kedro_hone.core.store.artifacts import Store
from kedro_hone.core.workers.host.session import Block

SOURCE = "source"
"""The id of the source model among the candidates."""

_NODES = {"race": "race.race", "confirm": "confirm"}
"""The names of the nodes that measure, by phase."""

Calls = dict[str, list[int] | Block]
"""By shape, the time of each call of one entrant in one round, in nanoseconds; a block if several clients called."""


@dataclass
class Timings:
    """The measurements of each round, by entrant."""

    rounds: list[dict[str, Calls]] = field(default_factory=list)
    failures: dict[str, Failed] = field(default_factory=dict)  # failed at the launch or when measured
    workers: int = 0  # number of launched processes

    def select(self, entrant: str) -> list[Calls]:
        """Return the calls of an entrant in each of its rounds."""
        return [measured[entrant] for measured in self.rounds if entrant in measured]

    def pair(self, entrant: str, shape: str, *, rival: str = SOURCE) -> tuple[list[float], list[float]]:
        """Return the time of a call of a rival (by default the source) and of the entrant, in each round with both.

        It is the median, or with several clients that of the block over the number of its calls: both are compared by
        throughput then.
        """
        shared = [measured for measured in self.rounds if entrant in measured and rival in measured]
        other, mine = ([find_call(measured[name][shape]) for measured in shared] for name in (rival, entrant))
        return other, mine

    def summarize(self, entrant: str) -> tuple[Latency, ...]:
        """Return the times of one call over all rounds, at each shape."""
        rounds = self.select(entrant)
        shapes = rounds[0] if rounds else ()
        return tuple(_summarize(shape, [calls[shape] for calls in rounds]) for shape in shapes)

    def store(self, store: Store, prefix: str) -> str:
        """Write all times to the store, and return the key of their tree, for ``write_timings``.

        For each entrant and shape, ``<prefix>/<entrant>/<shape>`` contains the nanoseconds of all calls, and
        ``…/calls`` the number of calls in each round. With several clients, ``…/walls`` contains the nanoseconds of
        each round's block. The prefix is ``race`` or ``confirm``.
        """
        arrays: dict[str, Any] = {}
        for name in dict.fromkeys(chain.from_iterable(self.rounds)):
            rounds = self.select(name)
            for shape in rounds[0]:
                calls = [list_times(measured[shape]) for measured in rounds]
                arrays[f"{prefix}/{name}/{shape}"] = np.asarray([*chain.from_iterable(calls)], dtype=np.int64)
                arrays[f"{prefix}/{name}/{shape}/calls"] = np.asarray([*map(len, calls)], dtype=np.int64)
                if walls := [one.wall for measured in rounds if isinstance(one := measured[shape], Block)]:
                    arrays[f"{prefix}/{name}/{shape}/walls"] = np.asarray(walls, dtype=np.int64)
        with store.workspace() as folder:
            np.savez_compressed(folder / TIMINGS, allow_pickle=False, **arrays)
            key = digest_file(folder / TIMINGS)
            store.store_tree(key, folder)
        return key


def list_times(measured: list[int] | Block) -> list[int]:
    """Return the time of each call of a round."""
    return measured.times if isinstance(measured, Block) else measured


def find_call(measured: list[int] | Block) -> float:
    """Return the time of a call in a round: the median, or with several clients their block over its calls."""
    return measured.wall / len(measured.times) if isinstance(measured, Block) else median(measured)


def _summarize(shape: str, rounds: Sequence[list[int] | Block]) -> Latency:
    latency = percentiles(shape, [*chain.from_iterable(map(list_times, rounds))])
    if not all(isinstance(one, Block) for one in rounds):
        return latency
    return latency.model_copy(update={"block_ms": median(map(find_call, rounds)) / 1e6})


def write_timings(path: Path, keys: Mapping[str, str], store: Store) -> None:
    """Write the raw timings of several nodes, by their keys in the store, into one new ``.npz``.

    Raises:
        HoneError: ``evidence-incomplete``: some of them are no longer in the store.
    """
    arrays: dict[str, Any] = {}
    for node, key in keys.items():
        folder = store.find_tree(key)
        if folder is None:
            raise HoneError(
                "evidence-incomplete",
                f"The raw timings of the node {node} are not in the store.",
                why="They are part of the evidence, and the store was emptied or damaged since they were measured.",
                hint=f"Measure again: `kedro-hone run --pipelines compare --from-nodes {_NODES[node]}`.",
            )
        with np.load(folder / TIMINGS, allow_pickle=False) as archive:
            arrays |= archive
    np.savez_compressed(path, allow_pickle=False, **arrays)
