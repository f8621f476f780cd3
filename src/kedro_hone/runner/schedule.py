"""The schedule of a search: which ready nodes start first, and which wait for more promising ones."""

from __future__ import annotations

import math
import sys
from collections.abc import Iterable, Sequence
from functools import cached_property
from itertools import chain
from typing import Any, Final, TypeAlias

from kedro.io import CatalogProtocol, DatasetError
from kedro.pipeline import Pipeline
from kedro.pipeline.node import Node

from hone_runtime.contract.catalogue import read_catalogue
from hone_runtime.contract.host import Host
from hone_runtime.values.measurement import Status, Validation
from kedro_hone.graph import read_plan
from kedro_hone.recipe.plan import RouteStep, read_route
from kedro_hone.recipe.schema import Recipe
from kedro_hone.search.plan.forecast import UNKNOWN, Forecast
from kedro_hone.search.plan.routes import only_converts
from kedro_hone.search.verdict.verdict import can_win

_RECIPE: Final = "params:hone"
ALONE: Final = "needs.bench"
"""The tag of nodes that measure: no other node may run at the same time, and they start when no other is ready."""
_VALIDATE: Final = "validate"
"""The tag and the name of nodes that validate."""
_BASE, _TIMES = 1 << 30, 6
"""The memory of a step: bytes for a toolchain's libraries, and how many times the source model's size."""
_Order: TypeAlias = tuple[bool, float, int, str]
LEAST_SPEED: Final = 0.5
"""A share of the expected speed of a candidate that only converts. A candidate that is expected to be slower waits
until all others are tried. It is not tried if the first one is valid."""


class Schedule:
    """The order of the nodes of a pipeline, by the forecast of the search.

    With a limited budget, a node waits if all its candidates are expected to have less than ``LEAST_SPEED`` of the
    speed of a *rival*. A rival is a candidate that only converts, so that it passes the quality gate, and that is valid
    or may still become valid. If no other node is left to run and the rival is valid, the search ends. Only measured
    speeds count: a candidate of unknown speed is no rival and never waits. A route with an adaptor in the recipe, or of
    a toolchain in its list, never waits either.
    """

    def __init__(self, pipeline: Pipeline, catalog: CatalogProtocol[Any, Any], host: Host) -> None:
        self._catalog, self._host = catalog, host
        self._orders: dict[str, _Order] = {}
        steps = read_plan().routes.steps
        self._steps = {step.namespace: step for step in steps}
        self._places = {step.namespace: place for place, step in enumerate(steps)}
        ends = [step for step in steps if step.ends]
        self._ends = {step.namespace: [end for end in ends if step.leads_to(end)] for step in steps}
        validated = {read_route(node.namespace) for node in pipeline.nodes if _VALIDATE in node.tags}
        self._rivals = {end.namespace for end in ends if end.namespace in validated and only_converts(end.route)}

    def sort(self, ready: Iterable[Node], *, idle: bool) -> list[Node]:
        """Return the nodes that may start, in order; if no node runs (``idle``), at least one.

        A training that the recipe names is before all other steps: cheaper ones would leave no time for it. Of equals
        the first in the plan is the first, so values of an option are tried as they are listed.
        """
        ordered = sorted(ready, key=self._find_order)
        if not any(read_route(node.namespace) in self._steps for node in ordered):
            return ordered
        least = self._find_least()
        promising = [node for node in ordered if self._find_speed(node) >= least]
        if promising or not idle:
            return promising
        self._end_search()
        return ordered

    def _find_order(self, node: Node) -> _Order:
        """Return the sort key of a node, which is computed once: it does not change in a run."""
        if node.name not in self._orders:
            first, priority = self._is_first(node), self.compute_priority(node)
            self._orders[node.name] = (not first, -priority, self._find_place(node), node.name)
        return self._orders[node.name]

    def _is_first(self, node: Node) -> bool:
        """Return whether a node is no step of a route, or follows trainings, all of which the recipe names."""
        step = self._steps.get(read_route(node.namespace))
        if step is None:
            return True
        trained = self._trainings.intersection(step.route)
        return bool(trained) and trained <= self._named_alone

    def _find_place(self, node: Node) -> int:
        return self._places.get(read_route(node.namespace), -1)

    def note_end(self, node: Node) -> None:
        """Record that a node has ended: an invalid candidate is no rival."""
        name = read_route(node.namespace)
        if _VALIDATE in node.tags and name in self._rivals:
            found: Validation = self._catalog.load(f"{name}.validation")
            if found.status is not Status.MEASURED or not can_win(found, self._recipe.gates):
                self._rivals.remove(name)

    def compute_priority(self, node: Node) -> float:
        """Return the largest expected speed that a node leads to, per second until then; infinite for other nodes."""
        step = self._steps.get(read_route(node.namespace))
        if step is None:
            return math.inf
        return max(
            self._compute_route_priority(step, end, built=_VALIDATE in node.tags) for end in self._ends[step.namespace]
        )

    def count_places(self, nodes: Sequence[Node]) -> int:
        """Return how many of some nodes fit into the machine's memory at once; at least one."""
        total = self._host.memory_bytes
        if total is None or not any(read_route(node.namespace) in self._steps for node in nodes):
            return sys.maxsize  # the catalog's source may be an earlier model, until this one is pulled
        return max(1, total // (_BASE + _TIMES * self._size))

    def _compute_route_priority(self, step: RouteStep, end: RouteStep, *, built: bool) -> float:
        names = () if built else end.route[len(step.route) - 1 :]
        seconds = self._forecast.sum_seconds(names, runtime=end.adaptor.name)
        return self._forecast.find_speed(end.route) / max(seconds, 0.1)

    def _find_speed(self, node: Node) -> float:
        """Return the largest expected speed that a node leads to; infinite if one is unknown, or must not wait."""
        ends = self._ends.get(read_route(node.namespace), ())
        if any(not self._named.isdisjoint(end.route) for end in ends):
            return math.inf
        return max((self._speeds.get(end.namespace, math.inf) for end in ends), default=math.inf)

    def _find_least(self) -> float:
        """Return the expected speed below which a candidate waits."""
        first = self._find_rival()
        return 0.0 if first is None or self._recipe.budget == "thorough" else LEAST_SPEED * self._speeds[first]

    def _find_rival(self) -> str | None:
        """Return the fastest rival with a measured speed, the first of equals; None if absent."""
        return max((name for name in self._speeds if name in self._rivals), key=self._speeds.__getitem__, default=None)

    def _end_search(self) -> None:
        times = 1 / LEAST_SPEED
        self._catalog.load("run").end_search(
            f"{self._find_rival()} is valid and usually more than {times:g} times as fast as this one; "
            "`hone.budget: thorough` tries it"
        )

    @cached_property
    def _speeds(self) -> dict[str, float]:
        """The expected speeds of candidates, by their namespace, if they were measured."""
        ends = [step for step in self._steps.values() if step.ends and self._forecast.knows_speed(step.route)]
        return {end.namespace: self._forecast.find_speed(end.route) for end in ends}

    @cached_property
    def _named(self) -> frozenset[str]:
        """The adaptors in the recipe: individually, in its routes, or by their toolchain."""
        recipe = self._recipe
        toolchains = recipe.toolchains if isinstance(recipe.toolchains, tuple) else ()
        listed = [name for name, one in read_catalogue().adaptors.items() if one.toolchain.name in toolchains]
        return self._named_alone.union(listed)

    @cached_property
    def _trainings(self) -> frozenset[str]:
        """The adaptors that train."""
        return frozenset(name for name, one in read_catalogue().adaptors.items() if one.trains)

    @cached_property
    def _named_alone(self) -> frozenset[str]:
        """The adaptors in the recipe: individually, or in its routes."""
        return frozenset((*self._recipe.adaptors, *chain.from_iterable(self._recipe.routes)))

    @cached_property
    def _recipe(self) -> Recipe:
        recipe: Recipe = self._catalog.load(_RECIPE)
        return recipe

    @cached_property
    def _forecast(self) -> Forecast:
        """The forecast in the catalog, which is made before any step; empty if it is missing."""
        try:
            forecast: Forecast = self._catalog.load("forecast")
        except DatasetError:
            return UNKNOWN
        return forecast

    @cached_property
    def _size(self) -> int:
        """The size of the source model in bytes."""
        size: int = self._catalog.load("store").measure(self._catalog.load("source"))
        return size
