"""Renewal: published winners whose search is out of date, since a toolchain or the machine is another one now."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path, PurePath
from typing import Final
from urllib.parse import urlsplit

from kedro_hone.core.contract.aliases import read_aliases
from kedro_hone.core.contract.registry import Registry, VersionInfo
from kedro_hone.core.contract.tags import MACHINE, SOURCE, TOOLSET
from kedro_hone.core.errors import ExitCode
from kedro_hone.core.locks import hold_lock
from kedro_hone.core.text import open_logger
from kedro_hone.core.values.base import Json
from kedro_hone.core.values.decision import Verdict
from kedro_hone.events.event import INTERPOLATION, name_model
from kedro_hone.events.job import Job, Optimize, Request, State
from kedro_hone.events.queue import Queue
from kedro_hone.events.rules import Rule

logger = open_logger(__name__)

RULE: Final = "renewal"
_DAY: Final = 86400.0


def list_winners(registry: Registry, *, find_alias: Callable[[VersionInfo], str | None]) -> list[VersionInfo]:
    """Return the winners in a registry that their alias points to, those first published first.

    Args:
        registry: Where they are.
        find_alias: Returns the alias that the runs of a winner's source move; None where none is looked for.

    Raises:
        HoneError: As ``Registry.versions_since``.
    """
    found, _, skipped = registry.versions_since(None)
    for uri, reason in skipped.items():
        logger.warning("%s is left out: %s", uri, reason)
    wanted = [(info, alias) for info in found if info.is_optimized and (alias := find_alias(info))]
    pointers = {name: read_aliases(registry, name).get(name, {}) for name in {info.name for info, _ in wanted}}
    return [info for info, alias in wanted if info.version == pointers[info.name].get(alias) or alias in info.aliases]


def find_rule_of(info: VersionInfo, rules: Sequence[Rule]) -> Rule | None:
    """Return the first rule that names the model that a winner was made from, whatever the events."""
    source = info.tags[SOURCE]
    model = name_model(name_source(source), uri=source)
    return next((rule for rule in rules if rule.covers(model)), None)


def name_source(uri: str) -> str:
    """Return the name of the model of a pinned URI, as events have it: ``digits``, ``org/name``, or a folder's name."""
    scheme, _, rest = uri.partition(":")
    if scheme == "models":
        return rest.lstrip("/").rpartition("/")[0]
    return rest.lstrip("/").partition("@")[0] if scheme == "hf" else PurePath(uri).name


def explain_refused(info: VersionInfo, registry: str, rule: Rule | None, *, project: Path) -> str:
    """Return why the source that a winner's tag names is not run; empty where it may be: who sets tags is no rule.

    Args:
        info: The winner.
        registry: The URI of the registry that it is in, or a folder.
        rule: The rule that names its source; None where there are no rules.
        project: The root of the Kedro project.
    """
    source = info.tags[SOURCE]
    try:
        scheme, own = urlsplit(source).scheme, urlsplit(registry).scheme
    except ValueError:
        return "it is no URI"
    if INTERPOLATION in source or not source.isprintable():
        return "it is no plain URI"
    if not scheme:
        roots = [project.resolve(), *([] if own else [(project / registry).resolve()])]
        inside = any((project / source).resolve().is_relative_to(root) for root in roots)
        return "" if inside else "it is a path outside the project"
    return "" if rule or scheme == own else "it is in another registry, and no rule in listen.yml names it"


def explain_due(info: VersionInfo, *, machine: str, toolset: str) -> str:
    """Return what has changed since a winner was found, in a few words; empty where nothing has.

    Args:
        info: The winner.
        machine: What ``name_machine`` returns of this one.
        toolset: What ``name_toolset`` returns of the recipe now.
    """
    texts = (info.tags.get(TOOLSET, ""), toolset)
    was, now = (dict(part.split("=", 1) for part in text.split() if "=" in part) for text in texts)
    news = [name for name, version in now.items() if was.get(name) != version]
    parts = [f"toolchains: {', '.join(news)}"] if news else []
    if info.tags.get(MACHINE) != machine:
        parts.append("the machine")
    return " and ".join(parts)


def make_renewal(info: VersionInfo, rule: Rule | None, *, device: str, machine: str, toolset: str) -> Request:
    """Return the request of a run that publishes only what beats the published winner.

    One is enough for a source, a machine and the toolchains' versions.

    Args:
        info: The winner that is out of date.
        rule: That by which the source runs; None for the project's own recipe.
        device: Where the run measures, without a rule.
        machine: This one's name.
        toolset: The toolchains' versions.
    """
    recipe: Mapping[str, Json] = rule.recipe if rule else {}
    gates = {**recipe.get("gates", {}), "beat_published": True}
    task = Optimize(recipe={**recipe, "gates": gates}, env=rule.env if rule else None)
    place = rule.device if rule else device
    return Request.make(uri=info.tags[SOURCE], rule=RULE, task=task, device=place, hardware=machine, recipe=toolset)


def choose_renewals(queue: Queue, requests: list[Request], *, limit: int, now: float) -> list[Request]:
    """Return those requests that are new, then those that failed or could not decide, up to the day's limit.

    One that failed, or could not decide, as on a machine that was busy, has its turn a day after it was asked for the
    last time, and twice as long after each time more, up to sixteen days: a model that cannot be renewed does not keep
    the others from their turn.

    Args:
        queue: Where renewals of the last 24 hours are counted.
        requests: In the order of their turn.
        limit: How many renewals there may be in 24 hours.
        now: Seconds since 1970.
    """
    left = limit - queue.count_requests(RULE, now - _DAY)
    known = [(one, queue.find_key(one.key)) for one in requests]
    failed = [(one, _list_times(queue, job, now=now)) for one, job in known if job and _may_repeat(job)]
    due = [(times[-1:], one) for one, times in failed if not times or now - times[-1] >= _choose_pause(times)]
    again = [one for _, one in sorted(due, key=lambda pair: pair[0])]
    # A row that cannot be read, as of a newer version, is neither new nor repeated.
    return [*(one for one, job in known if job is None and not queue.has_key(one.key)), *again][: max(0, left)]


def queue_renewals(queue: Queue, requests: list[Request], *, limit: int, now: float, lock: Path) -> list[Request]:
    """Queue what ``choose_renewals`` returns, and return it; two sweeps at once keep the limit of a day together.

    Args:
        queue: The queue.
        requests: In the order of their turn.
        limit: How many renewals there may be in 24 hours.
        now: Seconds since 1970.
        lock: The file that is held meanwhile.
    """
    with hold_lock(lock, purpose="choosing renewals"):
        chosen = choose_renewals(queue, requests, limit=limit, now=now)
        for one in chosen:
            if not queue.accept([one]) and (job := queue.find_key(one.key)):  # it ended before
                queue.start_again(job.id)
    return chosen


def _may_repeat(job: Job) -> bool:
    """Return whether a renewal ended without a verdict that stands; its exit code tells where its result is lost."""
    undecided = job.verdict == Verdict.INCONCLUSIVE or (not job.verdict and job.exit_code == ExitCode.INCONCLUSIVE)
    return job.state is State.FAILED or (job.state is State.DONE and undecided)


def _list_times(queue: Queue, job: Job, *, now: float) -> tuple[float, ...]:
    """Return when a job was asked for, without what a clock that was wrong once put into the future."""
    return tuple(at for at in queue.list_requests(job.id) if at <= now)


def _choose_pause(times: tuple[float, ...]) -> float:
    """Return how long a renewal waits that failed each time that it was asked for, in seconds."""
    return _DAY * 2.0 ** min(len(times) - 1, 4)
