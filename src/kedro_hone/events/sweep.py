"""The sweep: it finds new versions in the registries, also if no webhook was delivered."""

from __future__ import annotations

import json
import logging
import math
import os
import subprocess
import sys
import threading
from collections.abc import Callable, Collection
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

from pydantic import Field, ValidationError

from hone_runtime.contract.registries import find_registry
from hone_runtime.contract.registry import Registry, VersionInfo
from hone_runtime.values.base import Value
from kedro_hone.events.event import Event, Kind, format_model_name
from kedro_hone.events.job import JobRequest
from kedro_hone.events.log import log
from kedro_hone.events.queue import Queue
from kedro_hone.events.rules import Rule, list_unmatched
from kedro_hone.events.settings import SweepSection

_LIMIT_SECONDS: Final = 600.0
_SKEW_SECONDS: Final = 60.0
"""How far a registry's clock may be behind ours at the first sweep without hiding versions made after the start."""
_RETRY_SECONDS: Final = 30.0
"""The longest time until a registry that could not be swept is tried again."""


class Arrivals(Value):
    """The new versions in a registry, without winners, and where to continue.

    Attributes:
        names: The models in the registry by their names in rules; only in a first sweep.
        skipped: Why versions were left out, by their URI; they are tried again the next time.
    """

    events: tuple[Event, ...]
    cursor: str
    names: tuple[str, ...] = ()
    skipped: dict[str, str] = Field(default_factory=dict)


def find_arrivals(registry: str, cursor: str | None, *, project: Path, since: float | None = None) -> Arrivals:
    """Return the events in a registry after a cursor.

    A new version's aliases and tags count as if each had been set now. Aliases and tags set later on a swept version
    are not found: registries list new versions only.

    Args:
        registry: Its URI.
        cursor: Where the last sweep ended; None for the first.
        project: The root of the Kedro project.
        since: Skip versions that are older, in seconds since 1970, or have no time in the registry, since there may be
            very many. A version may be a minute older, since clocks differ; a folder has our clock.

    Raises:
        HoneError: As ``Registry.versions_since``.
    """
    infos, end, skipped = open_registry(registry, project=project).versions_since(cursor)
    sources = [info for info in infos if not info.is_optimized]
    names = sorted({format_model_name(info.name, uri=info.uri) for info in sources}) if cursor is None else ()
    earliest = None if since is None else since - (_SKEW_SECONDS if urlsplit(registry).scheme else 0)
    new = [info for info in sources if earliest is None or info.created >= earliest]
    events = tuple(event for info in new for event in _list_events(info))
    return Arrivals(events=events, cursor=end, names=tuple(names), skipped=dict(skipped))


def open_registry(registry: str, *, project: Path) -> Registry:
    """Return a registry by its URI; a registry of folders lists the folder in the URI.

    Raises:
        HoneError: As ``find_registry``.
    """
    return find_registry(registry, project=project if urlsplit(registry).scheme else project / registry)


def _list_events(info: VersionInfo) -> list[Event]:
    named: dict[str, Any] = {"uri": info.uri, "name": info.name, "version": info.version, "delivery": ""}
    named["after"] = info.created if info.again else 0.0
    made = [Event(kind=Kind.VERSION_CREATED, **named)]
    made += [Event(kind=Kind.ALIAS_SET, key=alias, **named) for alias in info.aliases]
    return made + [Event(kind=Kind.TAG_SET, key=key, value=value, **named) for key, value in info.tags.items()]


def build_command(registry: str) -> list[str]:
    """Return the command that prints the new versions in a registry."""
    return [sys.executable, "-m", "kedro_hone", "hone", "arrivals", registry]


class Sweep:
    """Sweeps registries, each in a process of its own: their clients are large, and may hang.

    Args:
        queue: The queue, which stores the cursors.
        section: The settings. With ``first: now``, the first sweep of a registry starts runs for versions made after
            the start of the first service that was configured to sweep it.
        project: The root of the Kedro project.
        rules: The rules of ``listen.yml``: the first sweep of a registry logs which of them match no model in it.
        choose: Returns the requests of an event.
        wake: Called if there are new jobs in the queue.
        hidden: The names of variables that are not passed to its processes: those of the service's secrets.

    Attributes:
        failing: Why registries could not be swept the last time.
    """

    def __init__(
        self,
        queue: Queue,
        *,
        section: SweepSection,
        project: Path,
        rules: tuple[Rule, ...],
        choose: Callable[[Event], tuple[JobRequest, ...]],
        wake: Callable[[], None],
        hidden: Collection[str] = (),
    ) -> None:
        self._queue, self._section, self._project, self._rules = queue, section, project, rules
        self._choose, self._wake, self._hidden = choose, wake, frozenset(hidden)
        self._starts = {registry: queue.note_start(registry) for registry in section.registries}
        self._stopping = threading.Event()
        self._process: subprocess.Popen[str] | None = None
        self.failing: dict[str, str] = {}
        self._skipped: dict[str, dict[str, str]] = {}

    def stop(self) -> None:
        """End the current sweep, and start no other."""
        self._stopping.set()
        if (process := self._process) is not None:
            process.kill()

    def repeat(self, registry: str) -> float:
        """Sweep a registry, and return the seconds until its next turn, which is sooner after a failure.

        If the registry has no timestamps, the versions present at its first sweep count as old.
        """
        self.sweep(registry)
        return min(self._section.every, _RETRY_SECONDS if registry in self.failing else math.inf)

    def sweep(self, registry: str) -> int:
        """Sweep a registry once; return how many jobs are new."""
        try:
            cursor = self._queue.read_cursor(registry)
            since = None if self._section.first == "all" or cursor is not None else self._starts[registry]
            found = self._list_arrivals(registry, cursor=cursor, since=since)
            if cursor is None and (names := list_unmatched(self._rules, registry, found.names)):
                log("rules-match-nothing", level=logging.WARNING, registry=registry, rules=names)
            requests = tuple(one for event in found.events for one in self._choose(event))
            new = self._queue.accept_swept(registry, found.cursor, requests)
        except Exception as error:  # noqa: BLE001 - the next sweep must come, whatever kept this one
            if not self._stopping.is_set():
                self.failing[registry] = str(error) or type(error).__name__
                log("sweep-failed", level=logging.WARNING, registry=registry, reason=self.failing[registry])
            return 0
        self.failing.pop(registry, None)
        for uri, reason in found.skipped.items():
            if self._skipped.get(registry, {}).get(uri) != reason:
                log("version-skipped", level=logging.WARNING, registry=registry, uri=uri, reason=reason)
        self._skipped[registry] = found.skipped
        if new:
            log("sweep-found", registry=registry, jobs=new)
            self._wake()
        return new

    def _list_arrivals(self, registry: str, **told: Any) -> Arrivals:
        with subprocess.Popen(
            build_command(registry),
            cwd=self._project,
            env={name: value for name, value in os.environ.items() if name not in self._hidden},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        ) as process:
            self._process = process
            if self._stopping.is_set():  # meanwhile: nothing else would end it
                process.kill()
            try:
                out, said = process.communicate(json.dumps(told), timeout=_LIMIT_SECONDS)
            except subprocess.TimeoutExpired:
                process.kill()
                raise ChildProcessError(f"it took longer than {_LIMIT_SECONDS:.0f} s") from None
            finally:
                self._process = None
        try:
            return Arrivals.model_validate_json(out.rstrip().rpartition("\n")[2])
        except ValidationError:
            raise ChildProcessError(said.strip()[-2000:] or f"exit code {process.returncode}") from None
