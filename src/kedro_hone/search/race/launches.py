"""Launches and interleaved rounds: a launch is one start of a worker process that loads and calls an artifact.

In each round every entrant is measured once, in random order, while all others are stopped. The machine's speed drifts,
and other programs start and end. Therefore compared models are always measured within the same round (paired design),
and the order is random so that no entrant is always first (blocking and randomization, G. E. P. Box, J. S. Hunter and
W. G. Hunter, *Statistics for Experimenters*, 2nd ed., 2005, ch. 3-4).
"""

from __future__ import annotations

import os
import random
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from hone_runtime.contract.catalogue import read_catalogue
from hone_runtime.contract.job import Job, JobInput
from hone_runtime.values.artifact import Artifact
from hone_runtime.values.outcome import Failed, FailureClass
from kedro_hone.core.workers.host.run import open_session
from kedro_hone.core.workers.host.session import Block, WorkerSession
from kedro_hone.recipe.environments import find_environment
from kedro_hone.search.context import RunContext
from kedro_hone.search.race.timings import Calls, Timings, find_call

_WARM_UP = 0.25
"""The share of a burst that is called before it and not counted: caches and clocks must recover after a stop."""
_WARM = 20
"""A call that takes as long as this many bursts has no warm-up. On an AMD EPYC with AVX2 the first call after a stop
took up to 6 ms longer than the next (2.3 % of 240 ms, in eager PyTorch). For a call of a second, that is less than 1 %.
"""
_LEAST = 2
"""The fewest timed calls of a burst, however long one takes. With the rounds of a confirmation of seven launches they
suffice for a 90th percentile."""
_MOST = 5000
"""The most timed calls of a burst, however short they are."""
_TRIES = 3
"""How many calls each client makes before the race, to be compared with a call on its own."""


@dataclass(frozen=True, kw_only=True)
class Burst:
    """How often an entrant is called in one round at one shape: first ``warmup`` calls, then the timed ones.

    With several clients these are the calls of all of them together.
    """

    warmup: int
    calls: int
    clients: int = 1


@contextmanager
def launch(
    artifact: Artifact,
    *,
    name: str,
    context: RunContext,
    output: Path | None = None,
    feeds: Iterable[Path] = (),
    interface: bool = False,
    seed: int | None = None,
    stopped: Callable[[], bool] | None = None,
) -> Iterator[WorkerSession | Failed]:
    """Start a worker for a runnable artifact in its runtime's environment, and yield it, or why it failed.

    Nothing is loaded yet, and leaving the block ends the worker. Threads, seed and trust are those of the recipe, the
    same for all, unless another seed is given. The name of the step's folder is ``name``, a candidate's id. In addition
    to its own directory, the worker may write to ``output``, and read ``feeds`` in addition to the timed batches. With
    ``interface``, the source's interface around the model is timed, as returned by ``kedro_hone.load``. If ``stopped``
    becomes true, the worker ends.
    """
    toolchain = read_catalogue().find_toolchain(str(artifact.runtime))
    # It was built before its step; a missing one is not built again during a measurement, but by the next run.
    environment = find_environment(context.recipe, toolchain, build=False)
    if isinstance(environment, Failed):
        yield environment.model_copy(update={"by": name})
        return
    store, run, recipe = context.store, context.run, context.recipe
    with store.workspace() as scratch, ExitStack() as stack:
        job = Job(
            function="load",
            worker=str(toolchain.worker),
            adaptor=name,
            stage="load",
            input=JobInput.of(artifact, store.locate(artifact)),
            output=str(output or scratch / "output"),
            temporary=str(scratch / "temporary"),
            seed=recipe.seed if seed is None else seed,
            threads=recipe.thread_count,
            trust=tuple(sorted(recipe.trust)),
            interface=artifact.metadata.get("interface") if interface else None,
            reads=tuple(map(str, (*context.batches.values(), *feeds))),
        )
        session = open_session(
            job,
            python=Path(environment.python),
            folder=run.claim_step(name, kind="launches"),
            limits=toolchain.limits,
            toolchain=toolchain,
            stopped=stopped,
        )
        if not isinstance(session, Failed):
            stack.callback(session.close)
        run.note("launch", candidate=name)
        yield session


@dataclass(frozen=True, kw_only=True)
class Contestant:
    """A candidate, loaded in a stopped worker that waits to be measured."""

    id: str
    session: WorkerSession
    bursts: Mapping[str, Burst]  # for each shape
    stack: ExitStack  # ends the worker when closed


def start_contestants(
    artifacts: Mapping[str, Artifact],
    context: RunContext,
    *,
    burst_ms: float,
    timings: Timings,
    stack: ExitStack,
    interface: bool = False,
    compares: bool = False,
    stopped: Callable[[], bool] | None = None,
) -> dict[str, Contestant]:
    """Launch artifacts, call each once at every shape, stop them, and return those that wait to be measured.

    The number of cores plus one are launched and loaded at a time, since loading is mostly one thread of Python. With
    an odd number of them no core is idle at the end. The result does not depend on their order. The number of calls in
    a burst is determined afterwards, while all others are stopped. Failures are recorded in the timings, and their
    workers are ended; closing the stack ends all. ``interface`` and ``stopped`` are explained at ``launch``. With
    ``compares``, one fails whose results for several clients at once are not those of single calls.
    """
    stacks = {name: stack.enter_context(ExitStack()) for name in artifacts}
    feeds, clients = context.batches, context.recipe.clients

    def start(name: str) -> WorkerSession | Failed:
        launched = launch(artifacts[name], name=name, context=context, interface=interface, stopped=stopped)
        session = stacks[name].enter_context(launched)
        fault = session if isinstance(session, Failed) else _load(session, feeds, clients, name if compares else "")
        return fault or session

    with ThreadPoolExecutor(max_workers=len(os.sched_getaffinity(0)) + 1) as pool:
        loaded = list(pool.map(start, artifacts))
    entrants: dict[str, Contestant] = {}
    size = partial(_size_bursts, clients={shape: clients[shape] for shape in feeds}, burst_ms=burst_ms)
    for (name, own), session in zip(stacks.items(), loaded, strict=True):
        entrant = session if isinstance(session, Failed) else size(name, session, stack=own)
        if isinstance(entrant, Failed):
            timings.failures[name] = entrant
            timings.workers += entrant.log is not None  # without an environment there is no worker
            own.close()
        else:
            timings.workers += 1
            entrants[name] = entrant
    return entrants


def _load(
    session: WorkerSession, feeds: Mapping[str, Path], clients: Mapping[str, int], compared: str
) -> Failed | None:
    """Load a model, call it once at each shape, and stop it; return why that failed.

    If it is ``compared``, by its name, calls by several clients are compared with single ones.
    """
    if isinstance(loaded := session.load(), Failed):
        return loaded
    for shape, batch in feeds.items():
        count = clients[shape]
        fault: Failed | Block | list[int] | None = session.arm(shape, batch, clients=count)
        if fault is None and count > 1 and compared:
            fault = _compare_clients(session, batch, clients=count, name=compared)
        if fault is None:
            fault = _time(session, shape, Burst(calls=count, warmup=0, clients=count))
        if isinstance(fault, Failed):
            return fault
    session.pause()
    return None


def _compare_clients(session: WorkerSession, batch: Path, *, clients: int, name: str) -> Failed | None:
    """Return a failure if calls by several clients at once have other results than a call on its own.

    A model whose single calls differ among themselves cannot be compared.
    """
    differing = session.run_together(batch, threads=clients, calls=_TRIES)
    if isinstance(differing, Failed) or not differing or session.run_together(batch, threads=1, calls=_TRIES):
        return differing if isinstance(differing, Failed) else None
    reason = f"{differing} of {clients * _TRIES} calls by {clients} clients at once returned other outputs than alone"
    return Failed(by=name, failure=FailureClass.BAD_OUTPUT, reason=reason)


def _size_bursts(
    name: str, session: WorkerSession, *, clients: Mapping[str, int], burst_ms: float, stack: ExitStack
) -> Contestant | Failed:
    bursts: dict[str, Burst] = {}
    session.resume()
    for shape, count in clients.items():
        measured = _time(session, shape, Burst(calls=count, warmup=count, clients=count))
        if not isinstance(measured, Failed) and _find_longest(measured) < burst_ms * 1e6:
            measured = _time(session, shape, Burst(calls=5 * count, warmup=2 * count, clients=count))
        if isinstance(measured, Failed):
            return measured
        times = [round(find_call(measured))] if isinstance(measured, Block) else measured
        bursts[shape] = plan_burst(times, burst_ms=burst_ms, clients=count)
    session.pause()
    return Contestant(id=name, session=session, bursts=bursts, stack=stack)


def _find_longest(measured: list[int] | Block) -> int:
    """Return the longest call, or the block: if it fills a burst, the fewest calls are made."""
    return measured.wall if isinstance(measured, Block) else max(measured)


def _time(session: WorkerSession, shape: str, burst: Burst) -> list[int] | Block | Failed:
    time = session.time if burst.clients == 1 else session.time_together
    return time(shape, calls=burst.calls, warmup=burst.warmup)


def plan_burst(times: list[int], *, burst_ms: float, clients: int = 1) -> Burst:
    """Return how many calls, ``_LEAST`` to ``_MOST``, fill a burst of some milliseconds, and how many precede it.

    The fastest of the timed calls, in nanoseconds, counts, since disturbances only make calls slower. Several clients
    make as many calls each, at least ``_LEAST``: otherwise some wait at the end of a block for the others.
    """
    fitting = burst_ms * 1e6 / max(min(times), 1) / clients
    calls = max(_LEAST, min(_MOST // clients, round(fitting)))
    warmup = max(2, round(calls * _WARM_UP)) if calls > _LEAST else int(fitting * _WARM > 1)
    return Burst(calls=calls * clients, warmup=warmup * clients, clients=clients)


def measure_round(entrants: Iterable[Contestant], *, order: random.Random, timings: Timings) -> None:
    """Measure each entrant once at every shape, in random order; all are stopped, before and after.

    An entrant that fails is recorded in the timings and not measured again.
    """
    shuffled = [entrant for entrant in entrants if entrant.id not in timings.failures]
    order.shuffle(shuffled)
    timings.rounds.append({})
    for entrant in shuffled:
        measured = _measure(entrant)
        if isinstance(measured, Failed):
            timings.failures[entrant.id] = measured
        else:
            timings.rounds[-1][entrant.id] = measured


def _measure(entrant: Contestant) -> Calls | Failed:
    measured: Calls = {}
    entrant.session.resume()
    try:
        for shape, burst in entrant.bursts.items():
            found = _time(entrant.session, shape, burst)
            if isinstance(found, Failed):
                return found
            measured[shape] = found
        return measured
    finally:
        entrant.session.pause()
