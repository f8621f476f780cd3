"""The runner of a search: cheap and promising steps first, as many at once as cores and memory allow.

``kedro run`` in this project uses it by default. With Kedro's own runners the nodes and digests are the same: only the
order differs, and so which candidates are left out when the budget ends.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Collection
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from functools import partial
from itertools import chain
from typing import Any, ClassVar

from kedro.io import CatalogProtocol
from kedro.pipeline import Pipeline
from kedro.pipeline.node import Node
from kedro.runner import AbstractRunner
from kedro.runner.task import Task
from pluggy import PluginManager

from hone_runtime.contract.hardware import read_host
from hone_runtime.contract.host import Host
from kedro_hone.recipe.plan import UNDISTURBED
from kedro_hone.runner.schedule import ALONE, Schedule


class SearchRunner(AbstractRunner):
    """Runs nodes that are ready, with the largest expected speed per second of work first.

    Args:
        is_async: Ignored: nodes already run in threads, and their inputs are small.
        max_workers: How many nodes may run at once, if the memory suffices; by default the number of cores.
    """

    _alone: ClassVar[frozenset[str]] = frozenset({ALONE, UNDISTURBED})
    """The tags of nodes that run alone."""

    def __init__(self, is_async: bool = False, max_workers: int | None = None) -> None:  # noqa: ARG002, FBT001, FBT002 - Kedro's
        super().__init__(is_async=False)
        self._most = self._validate_max_workers(max_workers or len(os.sched_getaffinity(0)))

    def _get_executor(self, max_workers: int) -> ThreadPoolExecutor:
        return ThreadPoolExecutor(max_workers=max_workers)

    def _run(
        self,
        pipeline: Pipeline,
        catalog: CatalogProtocol[Any, Any],
        hook_manager: PluginManager | None = None,
        run_id: str | None = None,
    ) -> None:
        """Run the pipeline; an exception of a node ends it when the other running nodes are done."""
        schedule = Schedule(pipeline, catalog, self._read_host())
        counts = Counter(chain.from_iterable(node.inputs for node in pipeline.nodes))
        free = pipeline.inputs() | pipeline.outputs()
        waits, todo, done = pipeline.node_dependencies, {*pipeline.nodes}, set[Node]()
        run = partial(Task, catalog=catalog, is_async=False, hook_manager=hook_manager, run_id=run_id)
        running: dict[Future[Node], Node] = {}
        pool = self._get_executor(self._most)
        try:
            while todo or running:
                ready = [node for node in todo if waits[node] <= done]
                chosen = self._choose(ready, running.values(), schedule)
                todo -= {*chosen}
                if len(chosen) == 1 and not running and len(ready) == 1:
                    ended = {*chosen}
                    run(self._place(chosen[0], schedule)).execute()  # in this thread, in which Ctrl-C is raised
                else:
                    running |= {pool.submit(run(self._place(node, schedule))): node for node in chosen}
                    futures, _ = wait(running, return_when=FIRST_COMPLETED)
                    ended = {running.pop(future) for future in futures}
                    for future in futures:
                        future.result()
                done |= ended
                for node in ended:
                    schedule.note_end(node)
                    _release(node, catalog, counts, free)
        except Exception:
            # Other runners log how to resume. Here the same command resumes: all results are in the store.
            self._abandon(catalog, interrupted=False)
            raise
        except BaseException:
            self._abandon(catalog, interrupted=True)
            raise
        finally:
            pool.shutdown(cancel_futures=True)

    def _choose(self, ready: list[Node], running: Collection[Node], schedule: Schedule) -> list[Node]:
        """Return which of the ready nodes start now, in addition to the running ones."""
        if any(self._alone & node.tags for node in running):
            return []
        ordered = schedule.sort(ready, idle=not running)
        if ordered and UNDISTURBED in self._alone & ordered[0].tags:
            return [] if running else ordered[:1]
        together = [node for node in ordered if not self._alone & node.tags]
        if not together and not running:
            return ordered[:1]
        return together[: max(0, self._count_places(together, schedule) - len(running))]

    # Overridden by another runner.

    def _read_host(self) -> Host:
        """Return the machine that measures."""
        return read_host()

    def _count_places(self, together: list[Node], schedule: Schedule) -> int:
        """Return how many of some nodes may run at once."""
        return min(self._most, schedule.count_places(together))

    def _place(self, node: Node, schedule: Schedule) -> Node:  # noqa: ARG002
        """Return the node to run in place of a node."""
        return node

    def _abandon(self, catalog: CatalogProtocol[Any, Any], *, interrupted: bool) -> None:
        """End the nodes that run next to a failed one, or, if the run is ``interrupted``, in other threads."""
        if interrupted and "run" in catalog:
            catalog.load("run").stop()  # ends their workers


def _release(node: Node, catalog: CatalogProtocol[Any, Any], counts: Counter[str], free: Collection[str]) -> None:
    """Release what no node reads any more, except what the pipeline takes or returns (``free``).

    Kedro's own method determines the latter again for each dataset, which took most of the time of a short step.
    """
    counts.subtract(node.inputs)
    for name in {*node.inputs, *node.outputs} - {*free}:
        if counts[name] < 1:
            catalog.release(name)
