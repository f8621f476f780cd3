"""The service: its parts, and how they are started and ended."""

from __future__ import annotations

import asyncio
import logging
import os
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import Final, ParamSpec, TypeVar
from urllib.parse import urlsplit

from hone_runtime.contract.tags import APPROVED
from kedro_hone.events.event import HUB, INTERPOLATION, Event, Kind
from kedro_hone.events.job import NO_DEVICE, Approve, JobRequest
from kedro_hone.events.log import log
from kedro_hone.events.outcomes import Bounds
from kedro_hone.events.queue import Queue
from kedro_hone.events.recurrence import Recurrence
from kedro_hone.events.retention import clean_up
from kedro_hone.events.rules import Rule, find_rule, list_hidden, list_unreachable
from kedro_hone.events.runner import Runner
from kedro_hone.events.settings import Secrets, Settings
from kedro_hone.events.sweep import Sweep

WORK: Final = Path("data", "hone")
"""Below a project: the queue, and the folders of jobs."""
Digests = Callable[[], Mapping[str, str]]
"""Returns the digest of the recipe that each rule changes, by the rule's name."""
_P = ParamSpec("_P")
_T = TypeVar("_T")


class Service:
    """The parts of the service; ``serve`` starts them.

    Args:
        settings: The settings of ``listen.yml``, also an attribute.
        secrets: The secrets of senders and people, also an attribute.
        project: The root of the Kedro project, also an attribute.
        hardware: A digest of this machine's hardware.
        recipes: Returns the digest of the recipe that each rule changes, by the rule's name.

    Attributes:
        queue: The jobs.
        runner: Starts the jobs.
        sweep: Queries the registries; None if it is disabled.
        schedule: Sweeps periodically, and removes old entries.
        counts: The deliveries so far, by their sender and outcome.

    Raises:
        HoneError: ``queue-broken``.
    """

    def __init__(self, settings: Settings, secrets: Secrets, *, project: Path, hardware: str, recipes: Digests) -> None:
        self.settings, self.secrets, self.project = settings, secrets, project
        self._hardware, self._recipes = hardware, recipes
        self.counts: Counter[tuple[str, str]] = Counter()
        self._writer = ThreadPoolExecutor(1, "hone-queue")
        self.queue = Queue(project / WORK / "queue.db")
        hidden = [name for _, name in settings.secrets if name is not None]
        self.runner = Runner(
            self.queue,
            project=project,
            devices={NO_DEVICE: 1, **settings.devices},
            bounds=Bounds(settings.attempts, settings.patience, settings.seconds),
            hidden=hidden,
            for_dispatch={"HONE_GITHUB_TOKEN": secrets.github},
        )
        calls = [partial(clean_up, self.queue, project / WORK / "jobs", days=settings.keep_days)]
        self.sweep: Sweep | None = None
        if settings.sweep is not None:
            self.sweep = Sweep(
                self.queue,
                section=settings.sweep,
                project=project,
                rules=settings.rules,
                choose=self.choose,
                wake=self.runner.wake,
                hidden=hidden,
            )
            calls += [partial(self.sweep.repeat, one) for one in settings.sweep.registries]
        self.schedule = Recurrence(*calls)

    async def call(self, function: Callable[_P, _T], *args: _P.args, **named: _P.kwargs) -> _T:
        """Call a function of the queue, or one that logs, in the single thread for both: it may wait for the disk."""
        return await asyncio.get_running_loop().run_in_executor(self._writer, partial(function, *args, **named))

    def choose(self, event: Event) -> tuple[JobRequest, ...]:
        """Return the request that an event leads to: an approval, or a run by the first rule that matches it."""
        if event.kind is Kind.TAG_SET and event.key == APPROVED:
            # Regardless of the rules: a winner may have another name than its source, and only waiting winners are
            # approved.
            return (make_approval(event.uri, asked=event.delivery),) if event.value.lower() == "true" else ()
        rule = find_rule(self.settings.rules, event)
        if rule is None or INTERPOLATION in event.uri:
            return ()
        made = self.make_request(event.uri, rule, version=event.version)
        return (made.model_copy(update={"after": event.after}),)

    def make_request(self, uri: str, rule: Rule, *, version: str = "", asked: bool = False) -> JobRequest:
        """Return the request of a run by a rule.

        Args:
            uri: The version, pinned, or a path.
            rule: The rule.
            version: The version's own name; used if the URI is a path, since its content may change.
            asked: Whether a person requested it.
        """
        return JobRequest.make(
            uri=uri,
            rule=rule.name,
            task=rule.make_task(asked=asked),
            device=NO_DEVICE if rule.dispatch else rule.device,
            hardware=self._hardware,
            version="" if urlsplit(uri).scheme else version,
            recipe=self._recipes().get(rule.name, ""),
        )

    def list_dead(self) -> list[str]:
        """Return the names of the threads that have ended before the service."""
        return [one.name for one in (*self.runner.threads, self.schedule) if one.ident and not one.is_alive()]

    def close(self) -> None:
        """Write pending data to the disk, and close the queue's file."""
        self._writer.shutdown()
        self.queue.close()


def make_approval(uri: str, *, asked: str, alias: str = "") -> JobRequest:
    """Return the request that moves the alias to a winner that waits for it.

    Args:
        uri: The winner.
        asked: A unique text for each approval of the same winner: its alias may have been moved away meanwhile.
        alias: The approved alias; empty for the one that the winner waits for.
    """
    return JobRequest.make(
        uri=uri, rule="approval", task=Approve(alias=alias), device=NO_DEVICE, hardware="", version=asked
    )


def _list_unreachable(service: Service) -> list[str]:
    swept = service.settings.sweep.registries if service.settings.sweep else ()
    hub = bool(service.secrets.huggingface) or any(one.startswith(HUB) for one in swept)
    others = bool(service.secrets.mlflow) or any(not one.startswith(HUB) for one in swept)
    return list_unreachable(service.settings.rules, hub=hub, others=others)


def find_mlflow(variables: Mapping[str, str]) -> str:
    """Return the registry of MLflow from which versions are pulled, its URI without possible secrets."""
    name = next((one for one in ("MLFLOW_REGISTRY_URI", "MLFLOW_TRACKING_URI") if variables.get(one)), "")
    if not name:
        return "data/mlflow.db, since MLFLOW_TRACKING_URI is not set"
    try:
        place = urlsplit(variables[name])
        if place.scheme in {"http", "https"} and place.hostname:
            return f"{place.scheme}://{place.hostname}" + (f":{place.port}" if place.port else "")
        shown = variables[name] if place.scheme in {"sqlite", "file"} and not place.query else place.scheme
    except ValueError:  # no URL
        shown = ""
    return shown or f"the value of {name}"


@contextmanager
def serve(service: Service) -> Iterator[None]:
    """Run jobs and sweep meanwhile; at the end, running jobs are ended and queued again."""
    for said in list_hidden(service.settings.rules):
        log("rule-hidden", level=logging.WARNING, reason=said)
    for said in _list_unreachable(service):
        log("rule-unreachable", level=logging.WARNING, reason=said)
    with ExitStack() as parts:  # each is ended, also if ending another one fails
        parts.callback(log, "stopped")
        parts.callback(service.close)
        parts.callback(service.runner.stop)
        service.runner.start()
        parts.callback(service.schedule.stop)
        if service.sweep is not None:
            parts.callback(service.sweep.stop)
        service.schedule.start()
        rules = [rule.name for rule in service.settings.rules]
        log("started", project=str(service.project), rules=rules, mlflow=find_mlflow(os.environ))
        yield
