"""A Dask cluster in one run: which workers take part, which one measures, and the nodes that run there.

Dask's scheduler decides where a node runs, by the resources that its workers were started with: ``build``, ``bench``,
``gpu``. This module adds checks that the scheduler does not make. A worker must access the run's folder, run the same
code and have the processor of the measuring machine. Everything is measured on one machine.
"""

from __future__ import annotations

import threading
import time
import uuid
from collections import Counter
from concurrent.futures import CancelledError
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final

from hone_runtime.contract.plugins import describe_exception
from hone_runtime.text import open_logger
from kedro_hone.runner.cluster_errors import explain_loss, explain_lost, explain_unfit
from kedro_hone.runner.member import Facts, HostRequirement, MisplacedError, Setup, digest_code, introduce, run_node

_LOGGER = open_logger(__name__)

BENCH: Final = "bench"
BUILD: Final = "build"
_FRESH, _POLL = 1.0, 2.0
"""In seconds: how long a list of the workers is valid, and how often it is checked while a node runs."""
_START: Final = 20.0
"""Seconds for workers to connect and respond at the start of a run."""
_DEATHS: Final = 10
"""How often Dask may give up a node because its workers died (each time after several deaths) before the run fails."""


@dataclass(frozen=True, kw_only=True)
class Member:
    """A living worker."""

    address: str
    name: str
    resources: frozenset[str]
    places: int  # how many nodes it can build at once
    facts: Facts


@dataclass(frozen=True, kw_only=True)
class NodeTask:
    """A node to run: its name, the resources that it needs, and its priority; higher priorities run first."""

    name: str
    needs: frozenset[str]
    priority: float


class Cluster:
    """The workers of a Dask scheduler that can take part in a run.

    Attributes:
        bench: The worker selected for measuring; everything is built for its host.

    Raises:
        HoneError: ``cluster-unfit``: no worker measures or none builds, or one of them cannot take part.
    """

    def __init__(self, client: Any, setup: Setup, *, patience: float) -> None:
        self._client, self._setup, self._patience = client, setup, patience
        self._code = digest_code(setup.package)
        self._lock, self._looked = threading.Lock(), -_FRESH
        self._known: dict[str, Facts | None] = {}
        self._members: list[Member] = []
        self._others: dict[str, frozenset[str]] = {}  # the resources of workers that cannot take part
        self._closed, self._futures = False, set[Any]()
        self.bench = self._choose_bench()

    def _choose_bench(self) -> Member:
        """Return the worker that measures: one with the most builders of its kind, the first by name."""
        members = self._meet()
        builders = Counter(one.facts.host.fingerprint for one in members if BUILD in one.resources)
        benches = [one for one in members if BENCH in one.resources]
        for label, found in ((BENCH, benches), (BUILD, builders)):
            if not found:
                raise explain_unfit(f"none of its {len(members)} workers has the resource {label!r}")
        first = min(benches, key=lambda one: (-builders[one.facts.host.fingerprint], one.name))
        if not builders[first.facts.host.fingerprint]:
            raise explain_unfit(f"no worker with {BUILD!r} has the processor of {first.name}, which measures")
        left = [one.name for one in members if one.facts.host.fingerprint != first.facts.host.fingerprint]
        if left:
            _LOGGER.warning("not used: %s, whose processors are not that of %s", ", ".join(left), first.name)
        return first

    def _meet(self) -> list[Member]:
        """Return the workers at the start; wait a moment for those that are starting or did not respond."""
        until = time.monotonic() + min(self._patience, _START)
        while True:
            members = self.look(strict=True)
            offered = frozenset[str]().union(*(one.resources for one in members))
            if (offered >= {BENCH, BUILD} and not self._others) or time.monotonic() >= until:
                return members
            time.sleep(_POLL / 2)

    def look(self, *, strict: bool = False) -> list[Member]:
        """Return the living workers that can take part; if ``strict``, one that cannot is an error."""
        with self._lock:
            if time.monotonic() - self._looked >= _FRESH:
                self._refresh(strict=strict)
                self._looked = time.monotonic()
            return self._members

    def _refresh(self, *, strict: bool) -> None:
        with explain_loss(self._client):
            alive = self._client.scheduler_info(n_workers=-1)["workers"]
            self._known = {address: self._known[address] for address in alive if address in self._known}
            new = [address for address in alive if address not in self._known]
            replies = self._client.run(introduce, self._setup, workers=new, on_error="return") if new else {}
        for address, facts in replies.items():
            if isinstance(facts, OSError):
                _LOGGER.warning("no answer of the worker %s: %s", address, describe_exception(facts))
                continue  # it died meanwhile, or will be queried again
            if (fault := self._find_fault(facts)) is not None:
                what = f"the worker {alive[address]['name']} at {address} {fault}"
                if strict:
                    raise explain_unfit(what)
                _LOGGER.warning("not used: %s", what)
            self._known[address] = None if fault else facts
        labels = {address: frozenset(found["resources"]) for address, found in alive.items()}
        self._others = {address: labels[address] for address in alive if self._known.get(address) is None}
        self._members = [
            Member(
                address=address,
                name=str(found["name"]),
                resources=labels[address],
                places=int(min(found["nthreads"], found["resources"].get(BUILD, 0))),
                facts=facts,
            )
            for address, found in alive.items()
            if (facts := self._known.get(address)) is not None
        ]

    def _forget(self, members: list[Member]) -> None:
        """Query workers again for their facts: a restarted worker may have its old address, but be different."""
        with self._lock:
            for one in members:
                self._known.pop(one.address, None)
            self._looked = -_FRESH

    def _find_fault(self, facts: Facts | BaseException) -> str | None:
        """Return why a worker cannot take part, from its own facts."""
        if isinstance(facts, BaseException):
            return f"cannot load kedro-hone and the project: {describe_exception(facts)}"
        if not facts.shared:
            return f"does not see, or cannot write, the run's folder {self._setup.folder}"
        if facts.code != self._code:
            return "runs other code than this process: another version, or code that was changed since it loaded it"
        return None

    def count_places(self) -> int:
        """Return how many nodes can be built at once, at least one.

        No more are submitted to Dask: it would bind each to a worker, where the node waits while another worker is
        idle.
        """
        kind = self.bench.facts.host.fingerprint
        return max(1, sum(one.places for one in self.look() if one.facts.host.fingerprint == kind))

    def close(self) -> None:
        """Abandon nodes that wait for a worker."""
        self._closed = True
        for future in [*self._futures]:
            future.cancel()

    def run(self, order: NodeTask, task: bytes) -> bytes:
        """Run a node's task on a worker, again if its worker died, and return its result.

        Raises:
            HoneError: ``cluster-worker-lost``, ``cluster-unreachable``.
            Exception: As raised by the node.
        """
        from distributed import KilledWorker  # noqa: PLC0415 - an extra

        deaths = misplaced = 0
        while True:
            chosen, only = self._wait_for_workers(order)
            try:
                return self._run(order, task, [one.address for one in chosen] if only else None)
            except _LeftError:
                continue
            except MisplacedError as error:
                misplaced += 1
                if misplaced >= _DEATHS:
                    raise explain_lost(f"No worker takes {order.name}.", str(error)) from error
                self._forget(chosen)
            except KilledWorker as error:
                deaths += 1
                _LOGGER.warning("again     %s: %s", order.name, error)
                if deaths >= _DEATHS:
                    raise explain_lost(f"The workers that ran {order.name} died.", str(error)) from error

    def _run(self, order: NodeTask, task: bytes, addresses: list[str] | None) -> bytes:
        """Submit a task and wait for it; ``_LeftError`` if no worker that may run it is left.

        Dask itself waits for workers without limit, and a restarted worker has another address.
        """
        with explain_loss(self._client):
            future = self._client.submit(
                run_node,
                task,
                self._setup,
                self._find_place(order),
                key=f"{order.name}-{uuid.uuid4().hex}",
                workers=addresses,
                resources=dict.fromkeys(self._find_labels(order.needs), 1),
                priority=order.priority,
                pure=False,
            )
            self._futures.add(future)
            try:
                while not self._wait(future):
                    fit = {one.address for one in self._list_fit(order)}
                    if not (fit if addresses is None else fit.intersection(addresses)):
                        raise _LeftError
                result: bytes = future.result()
                return result
            finally:
                self._futures.discard(future)
                future.cancel()

    def _wait(self, future: Any) -> bool:
        """Wait for a future for a moment, and return whether it is done."""
        if self._closed:
            raise CancelledError
        with suppress(TimeoutError):
            future.exception(timeout=_POLL)
        return bool(future.done())

    def _wait_for_workers(self, order: NodeTask) -> tuple[list[Member], bool]:
        """Return the workers that may run a node, and whether to restrict it to them (not if all of its kind may).

        Dask would wait for ever for missing workers.
        """
        until = time.monotonic() + self._patience
        while not (fit := self._list_fit(order)):
            if self._closed:
                raise CancelledError
            if time.monotonic() >= until:
                kind = "the machine that measures" if BENCH in order.needs else f"a machine like {self.bench.name}"
                why = f"For {self._patience:.0f} s there was no worker with {', '.join(sorted(order.needs))} on {kind}."
                raise explain_lost(f"There is no worker for {order.name} any more.", why)
            time.sleep(_POLL / 2)
        labels = {one.address: one.resources for one in self.look()} | self._others
        able = {address for address, resources in labels.items() if resources >= self._find_labels(order.needs)}
        return fit, able != {one.address for one in fit}

    def _find_place(self, order: NodeTask) -> HostRequirement:
        """Return where a node may run: measuring nodes on one machine only, all others on any of its kind."""
        facts = self.bench.facts
        machine = facts.machine if BENCH in order.needs else None
        return HostRequirement(fingerprint=facts.host.fingerprint, code=self._code, machine=machine)

    def _list_fit(self, order: NodeTask) -> list[Member]:
        labels, place = self._find_labels(order.needs), self._find_place(order)
        alike = [one for one in self.look() if one.facts.host.fingerprint == place.fingerprint]
        return [one for one in alike if one.resources >= labels and place.machine in {None, one.facts.machine}]

    def _find_labels(self, needs: frozenset[str]) -> frozenset[str]:
        """Return the resources of a node: ``build`` and ``bench``, others only if some worker offers them.

        If none does, the node runs on a machine without them, and reports the missing ones, as in a local run.
        """
        offered = frozenset[str]().union(*(one.resources for one in self._members))
        return needs & (offered | {BENCH, BUILD})


class _LeftError(Exception):
    """No worker that may run a node is left."""
