"""The state of an ongoing run: its phase, running and completed nodes, the expected rest and the best candidate."""

from __future__ import annotations

import logging
import threading
import time
from collections import Counter, deque
from collections.abc import Mapping
from contextlib import suppress
from typing import Any, Final

from kedro.io import CatalogProtocol, DatasetError
from kedro.pipeline import Pipeline
from kedro.pipeline.node import Node

from hone_runtime.errors import HoneError
from hone_runtime.text import PACKAGES, open_logger
from hone_runtime.values.artifact import Artifact
from hone_runtime.values.measurement import Confirmation, RaceResult
from kedro_hone.core.store.runs import RunFolder
from kedro_hone.graph import read_plan
from kedro_hone.hooks.display import EVENTS, TITLES, Display, Snapshot
from kedro_hone.hooks.lines import LineHandler, is_passing
from kedro_hone.hooks.training import describe_training
from kedro_hone.recipe.plan import TRAINS, read_route
from kedro_hone.recipe.schema import Recipe
from kedro_hone.report.wording import describe_speed
from kedro_hone.search.plan.confirmation import Remaining
from kedro_hone.search.plan.expectation import Expectation, TimeLimits, expect, find_limits
from kedro_hone.search.plan.forecast import Forecast

_RECIPE: Final = "params:hone"
_ORDER: Final = [*TITLES]
_LOGGER = open_logger(__name__)


def find_phase(node: Node) -> str:
    """Return the phase of a node: its outermost namespace, or its own name; empty if it is not kedro-hone's."""
    name = (node.namespace or node.name).partition(".")[0]
    return name if name in TITLES else ""


class Tracker:
    """Counts the nodes of a run by phase, and stores the values that the display shows."""

    def __init__(self, pipeline: Pipeline, catalog: CatalogProtocol[Any, Any]) -> None:
        self._catalog, self._began, self._lock = catalog, time.monotonic(), threading.Lock()
        self._totals = Counter(map(find_phase, pipeline.nodes))
        self._done: Counter[str] = Counter()
        self._ended: dict[bool, set[str]] = {True: set(), False: set()}  # by whether it validates
        self._phase = next(phase for phase in _ORDER if self._totals[phase])
        self._phase_began = self._began
        self._running: dict[str, float] = {}
        self._trainings = set[str]()
        self._events: deque[str] = deque(maxlen=EVENTS)
        self._best = ""
        self._limits: TimeLimits | None = None
        self._expectation: Expectation | None = None
        self._launches: Remaining | None = None
        self._launches_noted = 0.0
        self._searches, made = "race" in pipeline.all_outputs(), pipeline.all_outputs()
        self._note_values({name: self._load(name) for name in ("source", "forecast") if name not in made})

    def begin(self, node: Node) -> None:
        """Record that a node begins."""
        with self._lock:
            self._running[node.name] = time.monotonic()
            self._trainings |= {node.name} if TRAINS in node.tags else set()

    def end(self, node: Node, outputs: dict[str, Any]) -> None:
        """Record that a node ended, with its outputs; the next phase begins when all nodes of the present one ended."""
        with self._lock:
            self._running.pop(node.name, None)
            self._trainings.discard(node.name)
            self._done[find_phase(node)] += 1
            self._ended["validate" in node.tags].add(read_route(node.namespace))
            self._go_on()
        for best in filter(None, map(describe_best, outputs.values())):
            self._best = best
        self._note_values(outputs)

    def note(self, record: logging.LogRecord) -> None:
        """Record a message of the log: an event, or the best candidate so far."""
        with self._lock:
            if is_passing(record):
                self._events.append(" ".join(record.getMessage().split()))
            self._best = getattr(record, "best", "") or self._best
            if remaining := getattr(record, "remaining", None):
                self._launches, self._launches_noted = remaining, time.monotonic()

    def take(self) -> Snapshot:
        """Return the present state."""
        now, run = time.monotonic(), self._load("run") if self._trainings else None
        training = describe_training(run.folder / "steps") if isinstance(run, RunFolder) else ""
        with self._lock:
            several = self._totals[self._phase] > 1
            began = self._running.items() if several else ()
            running = tuple((name.removeprefix(f"{self._phase}."), now - since) for name, since in began)
            rest, most = self._find_rest(now)
            return Snapshot(
                phase=self._phase,
                done=self._done[self._phase],
                total=self._totals[self._phase],
                seconds=now - self._began,
                rest=rest,
                most=most,
                limits=self._limits.describe() if self._limits else "",
                best=self._best,
                training=training,
                running=running,
                events=tuple(self._events),
            )

    def _go_on(self) -> None:
        """Continue with the first phase that has nodes that did not end."""
        open_phases = (phase for phase in _ORDER if self._done[phase] < self._totals[phase])
        phase = next(open_phases, self._phase)
        if phase != self._phase:
            self._phase, self._phase_began = phase, time.monotonic()
            self._events.clear()

    def _find_rest(self, now: float) -> tuple[float | None, float]:
        """Return the expected seconds until the verdict, None if they are unknown, and the most, 0 if it is unknown.

        While finalists are confirmed, only the launches so far are known to be right: a guess that was too short would
        be "nearly done" for minutes.
        """
        if self._phase == "confirm":
            if self._launches is None:
                return None, 0.0
            took = now - self._launches_noted
            return max(0.0, self._launches.least - took), max(0.0, self._launches.most - took)
        if self._expectation is None:
            return None, 0.0
        past = _ORDER[: _ORDER.index(self._phase)]
        here = now - self._phase_began
        rest = self._expectation.find_rest(
            built=self._ended[False],
            validated=self._ended[True],
            past=past,
            searched=now - self._began,
            raced=here if self._phase == "race" else 0.0,
        )
        return rest, 0.0

    def _note_values(self, values: Mapping[str, Any]) -> None:
        """Record the longest times once the source's size is known, and the expected ones once there is a forecast."""
        source, forecast, recipe = values.get("source"), values.get("forecast"), self._load(_RECIPE)
        if not self._searches or not isinstance(recipe, Recipe):
            return
        if isinstance(source, Artifact) and (store := self._load("store")) is not None:
            self._limits = find_limits(recipe, source, store)
            _LOGGER.info("budget    %s", self._limits.describe())
        if isinstance(forecast, Forecast) and self._limits is not None:
            source, routes = self._load("source"), read_plan().routes
            self._expectation = expect(recipe, routes, source, forecast=forecast, limits=self._limits)

    def _load(self, name: str) -> Any:
        """Return a value of the catalog; None if absent: the node that needs it then explains why."""
        with suppress(DatasetError, HoneError):
            return self._catalog.load(name)
        return None


class Listener(logging.Handler):
    """Passes our log to a tracker; a live display then shows the messages that only report progress."""

    def __init__(self, tracker: Tracker, display: Display) -> None:
        super().__init__(logging.INFO)
        self._tracker, self._display = tracker, display
        self._handlers: list[logging.Handler] = []

    def attach(self) -> None:
        """Listen to the log."""
        for name in PACKAGES:
            logging.getLogger(name).addHandler(self)
        if self._display.shows_events:
            self._handlers = [one for one in logging.getLogger().handlers if isinstance(one, LineHandler)]
            for one in self._handlers:
                one.addFilter(_leave_out)

    def detach(self) -> None:
        """Listen no more."""
        for name in PACKAGES:
            logging.getLogger(name).removeHandler(self)
        for one in self._handlers:
            one.removeFilter(_leave_out)

    def emit(self, record: logging.LogRecord) -> None:
        """Pass a message on."""
        self._tracker.note(record)
        self._display.show()


def _leave_out(record: logging.LogRecord) -> bool:
    return not is_passing(record)


def describe_best(value: object) -> str:
    """Return the best candidate so far, from the output of the race or the confirmation; otherwise an empty string."""
    if isinstance(value, RaceResult) and value.standings and (ratio := value.standings[0].objective):
        return f"best so far {describe_speed(value.standings[0].id, ratio, load=value.other_load)}"
    if isinstance(value, Confirmation) and value.finalists and (speedup := value.finalists[0].deciding):
        return f"confirmed {describe_speed(value.finalists[0].id, speedup.ratio, load=value.other_load)}"
    return ""
