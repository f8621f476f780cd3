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
from hone_runtime.values.outcome import Failed
from kedro_hone.core.workers.host.run import open_session
from kedro_hone.core.workers.host.session import WorkerSession
from kedro_hone.recipe.environments import find_environment
from kedro_hone.search.context import RunContext
from kedro_hone.search.race.timings import Calls, Timings

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


@dataclass(frozen=True, kw_only=True)
class Burst:
    """How often an entrant is called in one round at one shape: first ``warmup`` calls, then the timed ones."""

    warmup: int
    calls: int


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
    stopped: Callable[[], bool] | None = None,
) -> dict[str, Contestant]:
    """Launch artifacts, call each once at every shape, stop them, and return those that wait to be measured.

    The number of cores plus one are launched and loaded at a time, since loading is mostly one thread of Python. With
    an odd number of them no core is idle at the end. The result does not depend on their order. The number of calls in
    a burst is determined afterwards, while all others are stopped. Failures are recorded in the timings, and their
    workers are ended; closing the stack ends all. ``interface`` and ``stopped`` are explained at ``launch``.
    """
    stacks = {name: stack.enter_context(ExitStack()) for name in artifacts}
    feeds = context.batches

    def start(name: str) -> WorkerSession | Failed:
        launched = launch(artifacts[name], name=name, context=context, interface=interface, stopped=stopped)
        return _load(stacks[name].enter_context(launched), feeds)

    with ThreadPoolExecutor(max_workers=len(os.sched_getaffinity(0)) + 1) as pool:
        loaded = list(pool.map(start, artifacts))
    entrants: dict[str, Contestant] = {}
    size = partial(_size_bursts, shapes=feeds, burst_ms=burst_ms)
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


def _load(session: WorkerSession | Failed, feeds: Mapping[str, Path]) -> WorkerSession | Failed:
    if isinstance(session, Failed):
        return session
    if isinstance(loaded := session.load(), Failed):
        return loaded
    for shape, batch in feeds.items():
        fault = session.arm(shape, batch) or session.time(shape, calls=1)
        if isinstance(fault, Failed):
            return fault
    session.pause()
    return session


def _size_bursts(
    name: str, session: WorkerSession, *, shapes: Iterable[str], burst_ms: float, stack: ExitStack
) -> Contestant | Failed:
    bursts: dict[str, Burst] = {}
    session.resume()
    for shape in shapes:
        times = session.time(shape, calls=1, warmup=1)
        if not isinstance(times, Failed) and max(times) < burst_ms * 1e6:  # else the fewest calls fill a burst
            times = session.time(shape, calls=5, warmup=2)
        if isinstance(times, Failed):
            return times
        bursts[shape] = plan_burst(times, burst_ms=burst_ms)
    session.pause()
    return Contestant(id=name, session=session, bursts=bursts, stack=stack)


def plan_burst(times: list[int], *, burst_ms: float) -> Burst:
    """Return how many calls, ``_LEAST`` to ``_MOST``, fill a burst of some milliseconds, and how many precede it.

    The fastest of the timed calls, in nanoseconds, counts, since disturbances only make calls slower.
    """
    fitting = burst_ms * 1e6 / max(min(times), 1)
    calls = max(_LEAST, min(_MOST, round(fitting)))
    if calls > _LEAST:
        return Burst(calls=calls, warmup=max(2, round(calls * _WARM_UP)))
    return Burst(calls=calls, warmup=int(fitting * _WARM > 1))


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
            times = entrant.session.time(shape, calls=burst.calls, warmup=burst.warmup)
            if isinstance(times, Failed):
                return times
            measured[shape] = times
        return measured
    finally:
        entrant.session.pause()
