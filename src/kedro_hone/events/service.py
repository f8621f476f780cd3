"""The service: what its parts share, and how they are started and ended."""

from __future__ import annotations

import logging
import os
import threading
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

from kedro_hone.core.contract.tags import APPROVED
from kedro_hone.events.event import HUB, INTERPOLATION, Event, Kind
from kedro_hone.events.intake import Intake
from kedro_hone.events.job import NO_DEVICE, Approve, Request
from kedro_hone.events.journal import log
from kedro_hone.events.outcomes import Bounds
from kedro_hone.events.queue import Queue
from kedro_hone.events.retention import Retention
from kedro_hone.events.rules import Rule, find_rule, list_hidden, list_unreachable
from kedro_hone.events.running import Runner
from kedro_hone.events.settings import Secrets, Settings
from kedro_hone.events.sweep import Sweep

WORK: Final = Path("data", "hone")
"""Below a project: the queue, and the folders of jobs."""


class Counts:
    """How many deliveries there were, by their sender and what became of them; threads may count at once."""

    def __init__(self) -> None:
        self._lock, self._counts = threading.Lock(), Counter[tuple[str, str]]()

    def add(self, source: str, outcome: str) -> None:
        """Count one."""
        with self._lock:
            self._counts[source, outcome] += 1

    def read(self) -> dict[tuple[str, str], int]:
        """Return all of them."""
        with self._lock:
            return dict(self._counts)


@dataclass(frozen=True, kw_only=True)
class Service:
    """What the parts of the service share.

    Attributes:
        settings: Those of ``listen.yml``.
        secrets: What the senders have to know.
        project: The root of the Kedro project.
        hardware: A digest of this machine's.
        recipes: The digest of the recipe that each rule changes, by the rule's name.
        queue: The jobs.
        intake: What writes deliveries into it.
        runner: What starts them.
        sweep: What asks the registries; None where nobody is to.
        retention: What removes the folders of old jobs.
        counts: The deliveries so far.
    """

    settings: Settings
    secrets: Secrets
    project: Path
    hardware: str
    recipes: Mapping[str, str]
    queue: Queue
    intake: Intake
    runner: Runner
    sweep: Sweep | None
    retention: Retention
    counts: Counts = field(default_factory=Counts)

    def list_dead(self) -> list[str]:
        """Return the names of the service's threads that have ended, which none does before the service."""
        threads = [*self.intake.threads, *self.runner.threads, *self.retention.threads]
        threads += self.sweep.threads if self.sweep else ()
        return [one.name for one in threads if not one.is_alive()]

    def choose(self, event: Event) -> tuple[Request, ...]:
        """Return the request that an event leads to; none where no rule takes it."""
        return choose_requests(event, self.settings, hardware=self.hardware, recipes=self.recipes)


def choose_requests(
    event: Event, settings: Settings, *, hardware: str, recipes: Mapping[str, str]
) -> tuple[Request, ...]:
    """Return the request that an event leads to: an approval, or a run by the first rule that takes it."""
    if event.kind is Kind.TAG_SET and event.key == APPROVED:
        # Whatever the rules: a winner may have another name than its source, and only one that waits is approved.
        return (make_approval(event.uri, asked=event.delivery),) if event.value.lower() == "true" else ()
    rule = find_rule(settings.rules, event)
    if rule is None or INTERPOLATION in event.uri:
        return ()
    made = make_request(event.uri, rule, hardware=hardware, recipe=recipes[rule.name], version=event.version)
    return (made.model_copy(update={"after": event.after}),)


def make_request(
    uri: str, rule: Rule, *, hardware: str, recipe: str, version: str = "", asked: bool = False
) -> Request:
    """Return the request of a run by a rule.

    Args:
        uri: The version, pinned, or a path.
        rule: What is done.
        hardware: A digest of this machine's.
        recipe: That of the recipe that the rule changes.
        version: The version's own name; it counts where the URI is a path, which may hold another model tomorrow.
        asked: Whether a person asked for it.
    """
    version = "" if urlsplit(uri).scheme else version
    device = NO_DEVICE if rule.dispatch else rule.device
    return Request.make(
        uri=uri,
        rule=rule.name,
        task=rule.make_task(asked=asked),
        device=device,
        hardware=hardware,
        version=version,
        recipe=recipe,
    )


def make_approval(uri: str, *, asked: str, alias: str = "") -> Request:
    """Return the request that moves the alias to a winner that waits for it.

    Args:
        uri: The winner.
        asked: What tells one approval from the next of the same winner, whose alias was moved away meanwhile.
        alias: The alias that was approved; empty for the one that the winner waits for.
    """
    return Request.make(
        uri=uri, rule="approval", task=Approve(alias=alias), device=NO_DEVICE, hardware="", version=asked
    )


def make_service(
    settings: Settings, secrets: Secrets, *, project: Path, hardware: str, recipes: Mapping[str, str]
) -> Service:
    """Return the parts, none of which has started but the intake.

    Raises:
        HoneError: ``queue-broken``.
    """
    queue = Queue(project / WORK / "queue.db")
    hidden = [name for _, name in settings.secrets if name is not None]
    runner = Runner(
        queue,
        project=project,
        devices={NO_DEVICE: 1, **settings.devices},
        bounds=Bounds(settings.attempts, settings.patience, settings.seconds),
        hidden=hidden,
        for_dispatch={"HONE_GITHUB_TOKEN": secrets.github},
    )
    swept = settings.sweep
    sweep = (
        None
        if swept is None
        else Sweep(
            queue,
            registries=swept.registries,
            project=project,
            seconds=swept.every,
            everything=swept.first == "all",
            rules=settings.rules,
            choose=lambda event: choose_requests(event, settings, hardware=hardware, recipes=recipes),
            wake=runner.wake,
            hidden=hidden,
        )
    )
    return Service(
        settings=settings,
        secrets=secrets,
        project=project,
        hardware=hardware,
        recipes=recipes,
        queue=queue,
        intake=Intake(queue),
        runner=runner,
        sweep=sweep,
        retention=Retention(queue, folder=project / WORK / "jobs", days=settings.keep_days),
    )


def _list_unreachable(service: Service) -> list[str]:
    swept = service.settings.sweep.registries if service.settings.sweep else ()
    hub = bool(service.secrets.huggingface) or any(one.startswith(HUB) for one in swept)
    others = bool(service.secrets.mlflow) or any(not one.startswith(HUB) for one in swept)
    return list_unreachable(service.settings.rules, hub=hub, others=others)


def name_mlflow(variables: Mapping[str, str]) -> str:
    """Return the registry of MLflow that versions are pulled from, without anything in its URI that may be a secret."""
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
    """Run jobs and sweep for a while; at the end, what runs is ended and queued again."""
    for said in list_hidden(service.settings.rules):
        log("rule-hidden", level=logging.WARNING, reason=said)
    for said in _list_unreachable(service):
        log("rule-unreachable", level=logging.WARNING, reason=said)
    with ExitStack() as parts:  # each is ended, whatever happens at the end of another
        parts.callback(log, "stopped")
        parts.callback(service.runner.stop)
        parts.callback(service.intake.close)
        service.runner.start()
        parts.callback(service.retention.stop)
        service.retention.start()
        if service.sweep is not None:
            parts.callback(service.sweep.stop)
            service.sweep.start()
        rules = [rule.name for rule in service.settings.rules]
        log("started", project=str(service.project), rules=rules, mlflow=name_mlflow(os.environ))
        yield
