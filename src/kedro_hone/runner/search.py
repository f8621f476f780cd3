"""The runner of a search: the cheap and promising steps first, as many at once as cores and memory allow.

``kedro run`` in this project uses it by itself. Kedro's own runners run the same nodes to the same digests: only the
order differs, and with it what is left out when the budget ends.
"""

from __future__ import annotations

import os
import sys
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from itertools import chain
from statistics import fmean
from typing import Any, Final

from kedro.io import CatalogProtocol
from kedro.pipeline import Pipeline
from kedro.pipeline.node import Node
from kedro.runner import AbstractRunner
from kedro.runner.task import Task
from pluggy import PluginManager

from kedro_hone.building.budget import list_valid
from kedro_hone.building.memory import Memory
from kedro_hone.building.routes import only_converts
from kedro_hone.core.contract.host import Host
from kedro_hone.core.machine.hardware import read_host
from kedro_hone.graph import read_plan
from kedro_hone.recipe.plan import SOURCE, RouteStep

_RECIPE: Final = "params:hone"
ALONE: Final = "needs.bench"
"""The tag of nodes that measure: nothing else may run next to them."""
_BASE, _TIMES = 1 << 30, 6
"""What a step may hold at once, in bytes: a toolchain's libraries, and the source model in several forms."""
_TIMES_AS_PROMISING: Final = 3.0
"""How many times as promising what is being built must be, for a place to be left free until it is built. Chosen by the
demo: a compilation of a minute waits for the export that ONNX Runtime needs, and what takes 15 seconds does not."""
_TIMES_AS_LONG, _LOOK_SECONDS = 2.0, 1.0
"""For how many times its expected seconds it is waited for, and how often that is looked at, in seconds."""
_SECONDS = 5.0
"""What is expected of a step of which nothing is remembered."""


class SearchRunner(AbstractRunner):
    """Runs nodes that are ready in the order of what their candidates are expected to gain a second.

    Args:
        is_async: Ignored: nodes run in threads already, and what they load is small.
        max_workers: How many nodes may run at once, where the memory suffices; as many as there are cores when None.
    """

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
        """Run the pipeline; what a node raises ends it, when the nodes that run next to it are done."""
        turns = Turns({step.namespace: step for step in read_plan().routes.steps}, catalog, self._read_host())
        counts = Counter(chain.from_iterable(node.inputs for node in pipeline.nodes))
        waits, todo, done = pipeline.node_dependencies, {*pipeline.nodes}, set[Node]()
        run = partial(Task, catalog=catalog, is_async=False, hook_manager=hook_manager, run_id=run_id)
        running: dict[Future[Node], Node] = {}
        began: dict[Node, float] = {}
        pool = self._get_executor(self._most)
        try:
            while todo or running:
                ready = [node for node in todo if waits[node] <= done]
                passed = {node: time.monotonic() - began[node] for node in running.values()}
                turns = turns.look()
                chosen = self._choose(ready, passed, turns)
                todo -= {*chosen}
                if len(chosen) == 1 and not running and len(ready) == 1:
                    ended = {*chosen}
                    run(self._place(chosen[0], turns)).execute()  # in this thread, where Ctrl-C is raised
                else:
                    began |= dict.fromkeys(chosen, time.monotonic())
                    running |= {pool.submit(run(self._place(node, turns))): node for node in chosen}
                    waits_for_place = len(chosen) < len(ready) and len(running) < self._most
                    timeout = _LOOK_SECONDS if waits_for_place else None
                    futures, _ = wait(running, timeout=timeout, return_when=FIRST_COMPLETED)
                    ended = {running.pop(future) for future in futures}
                    for future in futures:
                        future.result()
                done |= ended
                for node in ended:
                    self._release_datasets(node, catalog, counts, pipeline)
        except Exception:
            # Other runners log how to resume. The same command does that: what was made is in the store.
            self._abandon(catalog, interrupted=False)
            raise
        except BaseException:
            self._abandon(catalog, interrupted=True)
            raise
        finally:
            pool.shutdown(cancel_futures=True)

    def _choose(self, ready: list[Node], running: Mapping[Node, float], turns: Turns) -> list[Node]:
        """Return which of the nodes that are ready start now, next to those that run, for some seconds each.

        A place stays free where what is being built is far more promising than what could have it.
        """
        if any(ALONE in node.tags for node in running):
            return []
        ordered = sorted(ready, key=lambda node: (-turns.weigh(node), node.name))
        together = [node for node in ordered if ALONE not in node.tags]
        if not together and not running:
            return ordered[:1]
        if not running:
            return together[: self._count_places(together, turns)]  # there is nothing to wait for
        worthy = turns.find_coming(running) / _TIMES_AS_PROMISING
        together = [node for node in together if turns.weigh(node) >= worthy]
        return together[: max(0, self._count_places(together, turns) - len(running))]

    # What another runner does otherwise.

    def _read_host(self) -> Host:
        """Return the machine that measures."""
        return read_host()

    def _count_places(self, together: list[Node], turns: Turns) -> int:
        """Return how many of some nodes may run at once."""
        return min(self._most, turns.count_places(together))

    def _place(self, node: Node, turns: Turns) -> Node:  # noqa: ARG002
        """Return what is run of a node."""
        return node

    def _abandon(self, catalog: CatalogProtocol[Any, Any], *, interrupted: bool) -> None:
        """End what runs next to a node that failed, or, where the run is ``interrupted``, in other threads."""
        if interrupted and "run" in catalog:
            catalog.load("run").clock.stop()  # their workers are ended


@dataclass
class Turns:
    """Whose turn it is: what is expected of each node's candidates, by the namespaces of the routes' steps."""

    steps: dict[str, RouteStep]
    catalog: CatalogProtocol[Any, Any]
    host: Host
    ends: dict[str, list[RouteStep]] = field(default_factory=dict)  # by namespace: the last steps of its candidates
    paths: dict[str, list[RouteStep]] = field(default_factory=dict)  # by the namespace of an end: all steps to it

    def __post_init__(self) -> None:
        """Find which steps lead to which, once: each turn asks for all of them."""
        if not self.ends:
            every = [*self.steps.values()]
            self.ends = {
                name: [one for one in every if one.ends and step.leads_to(one)] for name, step in self.steps.items()
            }
            self.paths = {one.namespace: [step for step in every if step.leads_to(one)] for one in every if one.ends}

    def look(self) -> Turns:
        """Return turns that know what is known now, since steps have ended in the meantime."""
        turns, known = replace(self), vars(self).get("memory")
        if known is not None and known.is_current():
            turns.memory = known  # what it has worked out holds still; it was made when the model was pulled
        return turns

    @cached_property
    def memory(self) -> Memory:
        """What is remembered for the model that the catalog holds."""
        store, source, recipe = map(self.catalog.load, ("store", "source", _RECIPE))
        return Memory(store, source, self.host, recipe)

    @cached_property
    def best(self) -> dict[int, Sequence[str] | None]:
        """The route that is expected to be the fastest of those candidates that were found valid.

        There is one for each batch size of the recipe: a winner can be of several, each the fastest at a shape.
        """
        return self._find_best(exact=False)

    @cached_property
    def best_exact(self) -> dict[int, Sequence[str] | None]:
        """The same of those that only convert: they hold the gate where what is faster loses too much."""
        return self._find_best(exact=True)

    def _find_best(self, *, exact: bool) -> dict[int, Sequence[str] | None]:
        valid = list_valid(self.catalog.load("run")) if "run" in self.catalog else []
        routes = [route for route in valid if not exact or only_converts(route)]
        return {batch: self.memory.find_best(routes, batch) for batch in {*self.memory.batches.values()}}

    def count_places(self, nodes: Sequence[Node]) -> int:
        """Return for how many at once of some nodes the machine has memory; one at least."""
        total = self.host.memory_bytes
        if total is None or not any(node.namespace in self.steps for node in nodes):
            return sys.maxsize  # the catalog's source may be an earlier model, until this one is pulled
        return max(1, total // (_BASE + _TIMES * self.memory.size))

    def weigh(self, node: Node) -> float:
        """Return what the candidates that a node leads to are expected to gain a second; other nodes come first.

        The gain is what a share of the best speed-up is expected to exceed that of the valid candidates by, as the mean
        over the batch sizes; of what only converts, that of those which only convert. So the first ones are cheap, and
        the next ones those that can be faster than they are.
        """
        step = self.steps.get(node.namespace or "")
        if step is None:
            return float("inf")
        return max(self._weigh_route(step, end, built="validate" in node.tags) for end in self.ends[step.namespace])

    def find_coming(self, running: Mapping[Node, float]) -> float:
        """Return the largest expected gain per second among the candidates that are being built; 0 where none is.

        A build that has run for far longer than it was expected to is no longer waited for: it may hang.
        """
        built = {node: self.steps[node.namespace] for node in running if node.namespace in self.steps}
        waited_for = [
            node
            for node, step in built.items()
            if "validate" not in node.tags and running[node] < _TIMES_AS_LONG * self._guess_step(step) + _LOOK_SECONDS
        ]
        return max(map(self.weigh, waited_for), default=0.0)

    def _weigh_route(self, step: RouteStep, end: RouteStep, *, built: bool) -> float:
        seconds = self.memory.guess_route(end.route)
        rivals = self.best_exact if only_converts(end.route) else self.best
        gains = [self.memory.find_gain(end.route, best, batch) for batch, best in rivals.items()]
        total = _SECONDS if seconds is None else seconds
        if not built:
            route = self.paths[end.namespace]
            total += sum(self._guess_step(one) for one in route[route.index(step) :])
        return fmean(gains) * self.memory.find_chance(end.route) / max(total, 0.1)

    def _guess_step(self, step: RouteStep) -> float:
        parent = self.steps.get(step.parent)
        start = self.memory.source.format if step.parent == SOURCE else step.parent
        form = parent.adaptor.produces if parent else start
        seconds = self.memory.guess_step(step.adaptor.name, form)
        return _SECONDS if seconds is None else seconds
