"""Launches: a launch is one start of a worker process in which an artifact is loaded and called."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from kedro_hone.core.contract.catalogue import read_catalogue
from kedro_hone.core.environments.store import EnvironmentStore
from kedro_hone.core.store.artifacts import Store
from kedro_hone.core.store.runs import RunFolder
from kedro_hone.core.values.artifact import Artifact
from kedro_hone.core.values.outcome import Failed
from kedro_hone.core.workers.host.job import Job, JobInput
from kedro_hone.core.workers.host.run import open_session
from kedro_hone.core.workers.host.session import WorkerSession


@dataclass(frozen=True, kw_only=True)
class Launching:
    """How every worker of a comparison is started: the same for all.

    Attributes:
        store: The artifact store.
        run: The run, whose folder keeps the logs.
        threads: Threads of the runtime.
        seed: Seed of whatever is random.
        trust: What may be executed.
        interface: Whether what is timed is the source's interface around the model, as ``kedro_hone.load`` gives it.
    """

    store: Store
    run: RunFolder
    threads: int
    seed: int
    trust: tuple[str, ...]
    interface: bool = False


@contextmanager
def launch(
    artifact: Artifact, *, name: str, launching: Launching, output: Path | None = None
) -> Iterator[WorkerSession | Failed]:
    """Start a worker for an artifact in its runtime's environment; nothing is loaded yet.

    Args:
        artifact: A runnable artifact.
        name: The candidate's id, for the step's folder.
        launching: How to start it.
        output: A directory that the worker may write to, next to its own.

    Yields:
        The session, or why there is none. Leaving the block ends the worker.
    """
    if artifact.runtime is None:
        raise ValueError(f"an artifact of the format {artifact.format} has no runtime and cannot be launched")
    toolchain = read_catalogue().find_toolchain(artifact.runtime)
    # It was built before its step; one that is gone is not built again under a measurement, but by the next run.
    environment = EnvironmentStore().ensure(toolchain, build=False)
    if isinstance(environment, Failed):
        yield environment.model_copy(update={"by": name})
        return
    with ExitStack() as stack:
        scratch = stack.enter_context(launching.store.workspace())
        job = Job(
            function="load",
            worker=str(toolchain.worker),
            adaptor=name,
            stage="load",
            input=JobInput.of(artifact, launching.store.locate(artifact)),
            output=str(output or scratch / "output"),
            temporary=str(scratch / "temporary"),
            seed=launching.seed,
            threads=launching.threads,
            trust=launching.trust,
            interface=artifact.metadata.get("interface") if launching.interface else None,
        )
        session = open_session(
            job,
            python=Path(environment.python),
            folder=launching.run.claim_step(name, kind="launches"),
            limits=toolchain.limits,
            toolchain=toolchain,
        )
        if not isinstance(session, Failed):
            stack.callback(session.close)
        launching.run.note("launch", candidate=name)
        yield session


@dataclass(frozen=True, kw_only=True)
class Entrant:
    """A candidate whose worker has loaded it and waits, stopped, to be measured.

    Attributes:
        id: The candidate's id.
        session: Its worker.
        calls: For each shape, how many calls fill one burst.
    """

    id: str
    session: WorkerSession
    calls: Mapping[str, int]


def enter(
    artifacts: Mapping[str, Artifact],
    *,
    shapes: Mapping[str, Path],
    burst_ms: float,
    launching: Launching,
    stacks: Mapping[str, ExitStack],
) -> tuple[dict[str, Entrant], dict[str, Failed]]:
    """Launch artifacts, load them, call each at every shape once, and stop them.

    Two are loaded at a time, since loading is mostly one thread of Python. How many calls fill a burst is found out
    afterwards, while all others are stopped.

    Args:
        artifacts: What to launch, by the candidate's id.
        shapes: The file of the batch of each shape, by the shape's name.
        burst_ms: How long one burst of calls shall last, in milliseconds.
        launching: How to start the workers.
        stacks: Each ends its worker when it is closed.

    Returns:
        Those that wait to be measured, and those that failed.
    """
    launched = {
        name: stacks[name].enter_context(launch(artifact, name=name, launching=launching))
        for name, artifact in artifacts.items()
    }
    with ThreadPoolExecutor(max_workers=2) as pool:
        loaded = list(pool.map(partial(_load, shapes=shapes), launched.values()))
    entrants, failures = {}, {}
    for name, session in zip(launched, loaded, strict=True):
        result = session if isinstance(session, Failed) else _size_bursts(name, session, shapes, burst_ms=burst_ms)
        if isinstance(result, Failed):
            failures[name] = result
        else:
            entrants[name] = result
    return entrants, failures


def _load(session: WorkerSession | Failed, *, shapes: Mapping[str, Path]) -> WorkerSession | Failed:
    if isinstance(session, Failed):
        return session
    loaded = session.load()
    if isinstance(loaded, Failed):
        return loaded
    for shape, feeds in shapes.items():
        fault = session.arm(shape, feeds) or session.time(shape, calls=1)
        if isinstance(fault, Failed):
            return fault
    session.pause()
    return session


def _size_bursts(name: str, session: WorkerSession, shapes: Iterable[str], *, burst_ms: float) -> Entrant | Failed:
    calls: dict[str, int] = {}
    session.resume()
    for shape in shapes:
        times = session.time(shape, calls=5, warmup=3)
        if isinstance(times, Failed):
            return times
        calls[shape] = count_calls(times, burst_ms=burst_ms)
    session.pause()
    return Entrant(id=name, session=session, calls=calls)


def count_calls(times: list[int], *, burst_ms: float) -> int:
    """Return how many calls, 3 to 5,000, fill a burst of some milliseconds.

    Of the timed calls, in nanoseconds, the fastest counts, since disturbances only make calls slower.
    """
    return max(3, min(5000, round(burst_ms * 1e6 / max(min(times), 1))))
