"""Launches and interleaved rounds: a launch is one start of a worker process in which an artifact is loaded and called.

In each round every entrant is measured once, in random order, while all others are stopped. The machine's speed drifts
and other programs come and go; what is compared is therefore always measured within the same round (paired design), and
the order is random so that no entrant is always first (blocking and randomization, G. E. P. Box, J. S. Hunter and W. G.
Hunter, *Statistics for Experimenters*, 2nd ed., 2005, ch. 3-4).
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

from hone_runtime.contract.catalogue import find_used, read_catalogue
from hone_runtime.contract.job import Job, JobInput
from hone_runtime.values.artifact import Artifact
from hone_runtime.values.outcome import Failed
from kedro_hone.core.workers.host.run import open_session
from kedro_hone.core.workers.host.session import WorkerSession
from kedro_hone.recipe.environments import find_environment
from kedro_hone.search.race.timings import Calls, Timings
from kedro_hone.search.setting import Setting

_WARM_UP = 0.25
"""The part of a burst that is called before it and not counted: caches and clocks have to come back after a stop."""
_WARM = 20
"""A call that is as long as so many bursts has none before it. On an AMD EPYC with AVX2 the first call after a stop
took up to 6 ms longer than the next (2.3 % of 240 ms, in eager PyTorch): of a call of a second less than 1 %."""
_LEAST = 2
"""The calls of a burst that are timed, however long one takes. With the rounds of a confirmation of seven launches they
are enough for a 90th percentile."""
_MOST = 5000
"""So many are timed at most, however short they are."""


@dataclass(frozen=True, kw_only=True)
class Burst:
    """How often an entrant is called in one round at one shape: ``warmup`` calls first, then those that are timed."""

    warmup: int
    calls: int


@contextmanager
def launch(
    artifact: Artifact,
    *,
    name: str,
    setting: Setting,
    output: Path | None = None,
    feeds: Iterable[Path] = (),
    interface: bool = False,
    seed: int | None = None,
    stopped: Callable[[], bool] | None = None,
) -> Iterator[WorkerSession | Failed]:
    """Start a worker for a runnable artifact in its runtime's environment, and yield it, or why there is none.

    Nothing is loaded yet, and leaving the block ends the worker. Threads, seed and trust are the recipe's, the same for
    all, unless another seed is given. The step's folder has the name, a candidate's id; next to its own directory, the
    worker may write to ``output``, and read ``feeds`` next to the batches that are timed. With ``interface``, what is
    timed is the source's interface around the model, as ``kedro_hone.load`` gives it. Where ``stopped`` comes to be
    true, its worker ends.
    """
    toolchain = read_catalogue().find_toolchain(str(artifact.runtime))
    # It was built before its step; one that is gone is not built again under a measurement, but by the next run.
    environment = find_environment(setting.recipe, toolchain, build=False)
    if isinstance(environment, Failed):
        yield environment.model_copy(update={"by": name})
        return
    used = (worker.parent for worker in find_used(toolchain))
    store, run, recipe = setting.store, setting.run, setting.recipe
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
            reads=tuple(map(str, (*setting.batches.values(), *feeds, *used))),
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
class Entrant:
    """A candidate whose worker has loaded it and waits, stopped, to be measured."""

    id: str
    session: WorkerSession
    bursts: Mapping[str, Burst]  # for each shape
    stack: ExitStack  # ends the worker when it is closed


def enter(
    artifacts: Mapping[str, Artifact],
    setting: Setting,
    *,
    burst_ms: float,
    timings: Timings,
    stack: ExitStack,
    interface: bool = False,
    stopped: Callable[[], bool] | None = None,
) -> dict[str, Entrant]:
    """Launch artifacts, call each at every shape once, stop them, and return those that wait to be measured.

    One more than there are cores is launched and loaded at a time, since loading is mostly one thread of Python; with
    an odd number of them no core is left without work at the end. Nothing depends on who is first. How many calls fill
    a burst is found out afterwards, while all others are stopped. Who fails is noted in the timings, and its worker is
    ended; closing the stack ends all. The interface and ``stopped`` are explained at ``launch``.
    """
    stacks = {name: stack.enter_context(ExitStack()) for name in artifacts}
    feeds = setting.batches

    def start(name: str) -> WorkerSession | Failed:
        launched = launch(artifacts[name], name=name, setting=setting, interface=interface, stopped=stopped)
        return _load(stacks[name].enter_context(launched), feeds)

    with ThreadPoolExecutor(max_workers=len(os.sched_getaffinity(0)) + 1) as pool:
        loaded = list(pool.map(start, artifacts))
    entrants: dict[str, Entrant] = {}
    size = partial(_size_bursts, shapes=feeds, burst_ms=burst_ms)
    for (name, own), session in zip(stacks.items(), loaded, strict=True):
        entrant = session if isinstance(session, Failed) else size(name, session, stack=own)
        if isinstance(entrant, Failed):
            timings.failures[name] = entrant
            timings.workers += entrant.log is not None  # without an environment there was no worker
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
) -> Entrant | Failed:
    bursts: dict[str, Burst] = {}
    session.resume()
    for shape in shapes:
        times = session.time(shape, calls=1, warmup=1)
        if not isinstance(times, Failed) and max(times) < burst_ms * 1e6:  # else a burst is the fewest calls anyway
            times = session.time(shape, calls=5, warmup=2)
        if isinstance(times, Failed):
            return times
        bursts[shape] = plan_burst(times, burst_ms=burst_ms)
    session.pause()
    return Entrant(id=name, session=session, bursts=bursts, stack=stack)


def plan_burst(times: list[int], *, burst_ms: float) -> Burst:
    """Return how many calls, ``_LEAST`` to ``_MOST``, fill a burst of some milliseconds, and how many come before it.

    Of the timed calls, in nanoseconds, the fastest counts, since disturbances only make calls slower.
    """
    fitting = burst_ms * 1e6 / max(min(times), 1)
    calls = max(_LEAST, min(_MOST, round(fitting)))
    if calls > _LEAST:
        return Burst(calls=calls, warmup=max(2, round(calls * _WARM_UP)))
    return Burst(calls=calls, warmup=int(fitting * _WARM > 1))


def measure_round(entrants: Iterable[Entrant], *, order: random.Random, timings: Timings) -> None:
    """Measure each entrant once at every shape, in random order; all are stopped, before and after.

    An entrant that fails is noted in the timings and measured no more.
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


def _measure(entrant: Entrant) -> Calls | Failed:
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
