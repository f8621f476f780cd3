"""``kedro hone sweep``: search again for published winners if their toolchains or the machine have changed."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import click

from hone_runtime.contract.hardware import read_host
from hone_runtime.contract.registry import VersionInfo
from hone_runtime.contract.tags import SOURCE
from hone_runtime.errors import HoneError
from hone_runtime.text import clean_line
from kedro_hone.cli.listen import find_settings, read_rule
from kedro_hone.events.exclusive import RUNS, SERVICE, lock_project
from kedro_hone.events.job import Job, JobRequest, State
from kedro_hone.events.outcomes import Bounds
from kedro_hone.events.queue import Queue
from kedro_hone.events.renewal import (
    RULE,
    explain_due,
    explain_refused,
    find_rule_of,
    list_winners,
    make_renewal,
)
from kedro_hone.events.rules import Rule
from kedro_hone.events.runner import Runner
from kedro_hone.events.service import WORK
from kedro_hone.events.settings import Settings
from kedro_hone.events.sweep import open_registry
from kedro_hone.graph import configure, find_root
from kedro_hone.search.plan.toolset import format_machine_tag, format_toolset

_PENDING: Final = frozenset({State.QUEUED, State.RUNNING})
_BOUNDS: Final = Bounds(attempts=3, patience=3600.0, seconds=6 * 3600.0)
"""The limits without a listen.yml."""


@click.command()
@click.option(
    "--registry",
    "registries",
    multiple=True,
    default=("models:/",),
    show_default=True,
    help="The registry or model to sweep.",
)
@click.option("--limit", default=3, show_default=True, type=click.IntRange(1), help="The most runs in 24 hours.")
@click.option("--dry-run", is_flag=True, help="Only print what would run.")
@click.option("--env", "-e", help="The Kedro environment of listen.yml.")
def sweep(*, registries: tuple[str, ...], limit: int, dry_run: bool, env: str | None) -> None:
    """Search again where a toolchain or the machine is another one than when the published winner was found.

    A new winner is published only if it beats the published one by the same gates, measured next to it. Where `kedro
    hone listen` runs in this project, it does the runs; otherwise this command does, one after the other.
    """
    configure()
    root = find_root()
    settings = find_settings(root, env)
    rules = settings.place(env).rules if settings else ()
    queue = Queue(root / WORK / "queue.db")
    requests = [one for registry in registries for one in _list_due(registry, root, rules)]
    chosen = queue.accept_daily(requests, rule=RULE, limit=limit, dry_run=dry_run)
    click.echo(f"{len(requests)} out of date; {len(chosen)} to run now, at most {limit} in 24 hours, and each once")
    if dry_run:
        return
    # Also those that an earlier, interrupted sweep queued.
    jobs = [job for one in requests if (job := queue.find_key(one.key)) and job.state in _PENDING]
    if jobs:
        _run_jobs(queue, root, jobs, settings)


def _list_due(registry: str, root: Path, rules: Sequence[Rule]) -> list[JobRequest]:
    """Return a request for each winner in a registry that is out of date, and print why it is, or why it stays."""
    machine, requests = format_machine_tag(read_host()), []
    found = {rule and rule.name: read_rule(root, rule)[0] for rule in (*rules, None)}

    def find_alias(info: VersionInfo) -> str | None:
        rule = find_rule_of(info, rules)
        if rules and rule is None:
            click.echo(clean_line(f"{info.uri}: no rule in listen.yml names its source, {info.tags[SOURCE]}"))
            return None
        if why := explain_refused(info, registry, rule, project=root):
            click.echo(clean_line(f"{info.uri}: its source, {info.tags[SOURCE]}, is not run: {why}"))
            return None
        if rule and rule.dispatch:
            click.echo(clean_line(f"{info.uri}: the workflows of {rule.dispatch.repository} run it, and must renew it"))
            return None
        return found[rule and rule.name].publish.alias

    for info in list_winners(open_registry(registry, project=root), find_alias=find_alias):
        rule = find_rule_of(info, rules)
        toolset = format_toolset(found[rule and rule.name])
        if why := explain_due(info, machine=machine, toolset=toolset):
            click.echo(clean_line(f"{info.uri}: changed: {why}"))
            requests.append(make_renewal(info, rule, device="cpu", machine=machine, toolset=toolset))
    return requests


def _run_jobs(queue: Queue, root: Path, jobs: Sequence[Job], settings: Settings | None) -> None:
    """Run renewals here, and no other job of the queue, unless a service runs; print the outcome of each."""
    try:
        with lock_project(root, SERVICE), lock_project(root, RUNS):
            pass
    except HoneError as error:
        if error.slug != "listener-running":
            raise
        click.echo("The service, or another sweep, works on the queue of this project, and does the runs.")
        return
    runner = Runner(
        queue,
        project=root,
        devices=dict.fromkeys((one.device for one in jobs), 1),
        bounds=Bounds(settings.attempts, settings.patience, settings.seconds) if settings else _BOUNDS,
        hidden=[name for _, name in settings.secrets if name is not None] if settings else (),
        rule=RULE,
    )
    runner.start()
    try:
        for job in jobs:
            _await_job(queue, job.id)
    finally:
        runner.stop()


def _await_job(queue: Queue, number: int) -> None:
    while (job := queue.find(number)) is not None and job.state in _PENDING:
        time.sleep(0.5)
    if job is not None:
        said = " ".join(filter(None, (job.state, job.verdict, job.published, job.reason)))
        click.echo(clean_line(f"{job.uri}: {said}"))
