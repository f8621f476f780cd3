"""Launches: a launch is one start of a worker process in which an artifact is loaded and called."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from kedro_hone.core.contract.catalogue import read_catalogue
from kedro_hone.core.contract.toolchain import Toolchain
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
    toolchain = _find_runtime(artifact)
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
        stack.callback(session.close)
        launching.run.note("launch", candidate=name)
        yield session


def _find_runtime(artifact: Artifact) -> Toolchain:
    if artifact.runtime is None:
        raise ValueError(f"an artifact of the format {artifact.format} has no runtime and cannot be launched")
    return read_catalogue().find_toolchain(artifact.runtime)


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

    def load(name: str, session: WorkerSession | Failed) -> Entrant | Failed:
        if isinstance(session, Failed):
            return session
        return _load(name, session, shapes=shapes)

    launched = {
        name: stacks[name].enter_context(launch(artifact, name=name, launching=launching))
        for name, artifact in artifacts.items()
    }
    with ThreadPoolExecutor(max_workers=2) as pool:
        loaded = dict(zip(launched, pool.map(load, launched.keys(), launched.values()), strict=True))
    results = {name: _size_bursts(one, shapes=shapes, burst_ms=burst_ms) for name, one in loaded.items()}
    entrants = {name: result for name, result in results.items() if isinstance(result, Entrant)}
    failures = {name: result for name, result in results.items() if isinstance(result, Failed)}
    return entrants, failures


def _load(name: str, session: WorkerSession, *, shapes: Mapping[str, Path]) -> Entrant | Failed:
    loaded = session.load()
    if isinstance(loaded, Failed):
        return loaded
    for shape, feeds in shapes.items():
        fault = session.arm(shape, feeds)
        if isinstance(fault, Failed):
            return fault
        first = session.time(shape, calls=1)
        if isinstance(first, Failed):
            return first
    session.pause()
    return Entrant(id=name, session=session, calls={})


def _size_bursts(entrant: Entrant | Failed, *, shapes: Iterable[str], burst_ms: float) -> Entrant | Failed:
    if isinstance(entrant, Failed):
        return entrant
    calls: dict[str, int] = {}
    entrant.session.resume()
    for shape in shapes:
        times = entrant.session.time(shape, calls=5, warmup=3)
        if isinstance(times, Failed):
            return times
        calls[shape] = count_calls(times, burst_ms=burst_ms)
    entrant.session.pause()
    return replace(entrant, calls=calls)


def count_calls(times: list[int], *, burst_ms: float) -> int:
    """Return how many calls fill a burst.

    Args:
        times: Some calls, in nanoseconds; the fastest counts, since disturbances only make calls slower.
        burst_ms: How long the burst shall last, in milliseconds.

    Returns:
        The number of calls, 3 to 5,000.
    """
    return max(3, min(5000, round(burst_ms * 1e6 / max(min(times), 1))))
