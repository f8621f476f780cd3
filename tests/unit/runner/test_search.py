"""The order of a search's nodes, and who runs next to whom."""

from __future__ import annotations

import threading
from types import SimpleNamespace
from typing import NamedTuple

import pytest
from kedro.framework.hooks.manager import _NullPluginManager
from kedro.io import DataCatalog, MemoryDataset
from kedro.pipeline import Pipeline, node

from kedro_hone.building.memory import UNKNOWN
from kedro_hone.core.machine.hardware import read_host
from kedro_hone.core.store.costs import Share
from kedro_hone.core.values.artifact import Stage
from kedro_hone.recipe.plan import RouteStep
from kedro_hone.runner import search as module
from kedro_hone.runner.search import ALONE, SearchRunner, Turns

SECONDS = {"cheap": 1.0, "dear": 30.0}
SHARES = {"cheap": Share(0.5, 0.2, 5), "dear": Share(0.6, 0.2, 5), "hopeful": Share(1.0, 0.2, 5)}


class Memory:
    """What a test says that is remembered."""

    source = SimpleNamespace(format="toy")
    size = 1 << 30

    def __init__(self):
        self.batches, self.at = {"batch1": 1, "batch64": 64}, {}
        self.chances = {}

    def guess_step(self, adaptor, form):
        assert form == "toy"
        return SECONDS.get(adaptor)

    def guess_route(self, route):
        assert route
        return 1.0

    def find_share(self, route, batch):
        return self.at.get((route[-1], batch), SHARES.get(route[-1]))

    def find_best(self, routes, batch):
        return max(routes, key=lambda route: self.find_share(route, batch).share, default=None)

    def find_chance(self, route):
        return self.chances.get(route, 1.0)

    def find_gain(self, route, best, batch):
        return (self.find_share(route, batch) or UNKNOWN).find_gain(best and self.find_share(best, batch))


def make_step(name):
    adaptor = SimpleNamespace(name=name, produces="toy")
    adaptor.stage = Stage.COMPILE
    return RouteStep(namespace=f"source.{name}", parent="source", adaptor=adaptor, route=(name,))


STEPS = {step.namespace: step for step in map(make_step, ("cheap", "dear", "unknown"))}


def make_turns(steps, *, host=None, **datasets):
    turns = Turns(steps, DataCatalog(datasets), host)
    turns.memory = Memory()
    return turns


@pytest.fixture
def turns():
    return make_turns(STEPS)


class Placed(NamedTuple):
    """A node that can be the key of a dictionary."""

    name: str
    namespace: str | None
    tags: tuple[str, ...] = ()


def place(name, namespace, **attributes):
    return SimpleNamespace(name=name, namespace=namespace, **{"tags": set(), **attributes})


def test_what_gains_most_a_second_comes_first(turns):
    built = {name: turns.weigh(place("compile", f"source.{name}")) for name in ("cheap", "dear", "unknown")}
    assert built["cheap"] == pytest.approx(0.51 / 2, rel=0.01)
    assert built["dear"] == pytest.approx(0.612 / 31, rel=0.01)
    assert built["unknown"] == pytest.approx(0.793 / 6, rel=0.01)


def test_what_came_to_nothing_before_has_its_turn_later(turns):
    before = turns.weigh(place("compile", "source.cheap"))
    turns.memory.chances = {("cheap",): 0.25}
    assert turns.weigh(place("compile", "source.cheap")) == pytest.approx(before / 4)


def test_what_only_converts_has_its_turn_next_to_what_only_converts(monkeypatch):
    """The fastest may lose too much for the gate: then there is nothing else."""
    steps = {step.namespace: step for step in map(make_step, ("cheap", "dear", "hopeful"))}
    valid = SimpleNamespace(read_notes=lambda event: [{"route": ["dear"]}] if event == "valid" else [])
    weights = []
    for exact in ((), ("cheap",)):
        monkeypatch.setattr(module, "only_converts", lambda route, exact=exact: set(route) <= {*exact})
        turns = make_turns(steps, run=MemoryDataset(valid, copy_mode="assign"))
        weights.append(turns.weigh(place("compile", "source.cheap")))
    assert weights[1] == pytest.approx(0.51 / 2, rel=0.01), "as if nothing were valid"
    assert weights[1] > 5 * weights[0]


def test_once_something_is_valid_what_can_exceed_it_comes_first():
    steps = {step.namespace: step for step in map(make_step, ("cheap", "dear", "hopeful"))}
    valid = SimpleNamespace(read_notes=lambda event: [{"route": ["dear"]}] if event == "valid" else [])
    turns = make_turns(steps, run=MemoryDataset(valid, copy_mode="assign"))
    gains = {name: turns.weigh(place("compile", f"source.{name}")) for name in ("cheap", "hopeful")}
    assert turns.best == {1: ["dear"], 64: ["dear"]}
    assert gains["hopeful"] > gains["cheap"]  # of 1 and of 5 seconds
    nothing = make_turns(steps)
    assert nothing.weigh(place("compile", "source.hopeful")) < nothing.weigh(place("compile", "source.cheap"))


def weigh_by_shape(shares, *, valid):
    """Return turns, and the weights of candidates whose shares at batch 1 and 64 are given."""
    steps = {step.namespace: step for step in map(make_step, shares)}
    found = SimpleNamespace(read_notes=lambda event: [{"route": [one]} for one in valid] if event == "valid" else [])
    turns = make_turns(steps, run=MemoryDataset(found, copy_mode="assign"))
    turns.memory.at = {
        (one, batch): Share(share, 0.2, 5)
        for one, own in shares.items()
        for batch, share in zip((1, 64), own, strict=True)
    }
    return turns, {one: turns.weigh(place("compile", f"source.{one}")) for one in shares}


def test_who_is_the_fastest_at_another_shape_comes_before_who_is_at_none():
    """One of them is a part of the winner, though over all shapes nobody exceeds who is valid."""
    _, gains = weigh_by_shape({"valid": (1.0, 0.4), "other": (0.4, 1.0), "behind": (0.9, 0.4)}, valid=["valid"])
    assert gains["other"] > 4 * gains["behind"]


def test_who_gains_at_every_shape_comes_before_who_gains_more_at_one():
    _, gains = weigh_by_shape({"valid": (0.5, 0.5), "one": (1.0, 0.1), "every": (0.9, 0.9)}, valid=["valid"])
    assert gains["every"] > 1.4 * gains["one"]


def test_at_each_shape_the_fastest_there_is_to_be_exceeded():
    shares = {"first": (1.0, 0.4), "second": (0.4, 1.0), "between": (0.8, 0.8)}
    turns, gains = weigh_by_shape(shares, valid=["first", "second"])
    assert turns.best == {1: ["first"], 64: ["second"]}
    assert gains["between"] < 0.01


def test_what_is_built_is_validated_first(turns):
    validated = turns.weigh(place("validate", "source.dear", tags={"validate"}))
    assert validated > turns.weigh(place("compile", "source.cheap"))


@pytest.mark.parametrize(
    ("ready", "running", "chosen"),
    [
        ("dear", ("cheap", 0.0), []),  # 0.02 a second, where 0.26 is coming
        ("dear", ("cheap", 2.9), []),
        ("dear", ("cheap", 3.1), ["dear"]),  # it was expected to take a second, and may hang
        ("unknown", ("cheap", 0.0), ["unknown"]),  # 0.13, which is more than a third of it
        ("dear", ("unknown", 0.0), []),
        ("cheap", ("dear", 0.0), ["cheap"]),
        ("dear", ("dear", 0.0), ["dear"]),
        ("dear", None, ["dear"]),
    ],
)
def test_a_place_stays_free_for_what_is_far_more_promising(turns, monkeypatch, ready, running, chosen):
    monkeypatch.setattr(turns, "count_places", lambda _: 2)
    built = {Placed("compile", f"source.{running[0]}"): running[1]} if running else {}
    free = SearchRunner(max_workers=2)._choose([Placed(ready, f"source.{ready}")], built, turns)
    assert [one.name for one in free] == chosen


@pytest.mark.parametrize("running", [("pull", None, ()), ("validate", "source.cheap", ("validate",))])
def test_no_place_stays_free_for_what_builds_nothing(turns, monkeypatch, running):
    monkeypatch.setattr(turns, "count_places", lambda _: 2)
    ready = [Placed("compile", "source.dear")]
    assert SearchRunner(max_workers=2)._choose(ready, {Placed(*running): 0.0}, turns) == ready


def test_what_gains_nothing_has_its_turn_where_nothing_else_runs(turns, monkeypatch):
    """A gain that was rounded to less than nothing was never chosen, and the run never ended."""
    monkeypatch.setattr(turns, "count_places", lambda _: 2)
    monkeypatch.setattr(turns.memory, "find_gain", lambda *_: -1e-17)
    node = Placed("compile", "source.cheap")
    assert SearchRunner(max_workers=2)._choose([node], {}, turns) == [node]


def test_a_turn_keeps_what_the_last_one_worked_out_until_there_are_newer_rows(turns):
    turns.memory.is_current = lambda: True
    later = turns.look()
    assert later.memory is turns.memory
    assert (later.ends, later.paths) == (turns.ends, turns.paths)
    turns.memory.is_current = lambda: False
    assert "memory" not in vars(turns.look())


def test_nodes_of_no_route_come_before_all(turns):
    assert turns.weigh(place("pull", None)) == float("inf")


@pytest.mark.parametrize(("gibibytes", "places"), [(24, 3), (14, 2), (13, 1), (4, 1)])
def test_no_more_run_at_once_than_there_is_memory_for(gibibytes, places):
    """At 1 GiB and six times the model for each."""
    host = SimpleNamespace(memory_bytes=gibibytes << 30)
    built = [place("compile", "source.cheap"), place("prepare", None)]
    assert make_turns(STEPS, host=host).count_places(built) == places


def test_before_there_is_a_model_only_the_cores_count():
    assert Turns(STEPS, DataCatalog(), read_host()).count_places([place("pull", None)]) > 1000


class Diary:
    """Nodes that note when they run, and wait for each other where a test wants it."""

    def __init__(self):
        self.lock, self.running, self.seen = threading.Lock(), set(), []

    def make(self, name, inputs, *, tags=(), work=lambda: None):
        def run(*_):
            with self.lock:
                self.running.add(name)
                self.seen.append((name, threading.current_thread().name, frozenset(self.running)))
            work()
            with self.lock:
                self.running.remove(name)
            return name

        return node(run, inputs, name, name=name, tags=[*tags])


@pytest.fixture
def run(monkeypatch):
    monkeypatch.setattr(module, "read_plan", lambda: SimpleNamespace(routes=SimpleNamespace(steps=())))
    clock = SimpleNamespace(stopped=False)
    clock.stop = lambda: setattr(clock, "stopped", True)

    def run(nodes, **arguments):
        catalog = DataCatalog(
            {"start": MemoryDataset(1), "run": MemoryDataset(SimpleNamespace(clock=clock), copy_mode="assign")}
        )
        return SearchRunner(**arguments).run(Pipeline(nodes), catalog, _NullPluginManager())

    run.clock = clock
    return run


def test_nodes_run_next_to_each_other_and_those_that_measure_alone(run):
    diary, both = Diary(), threading.Barrier(2, timeout=60)
    nodes = [
        diary.make("first", "start"),
        *(diary.make(name, "first", work=both.wait) for name in ("a", "b")),
        *(diary.make(name, "first", tags=[ALONE]) for name in ("race-1", "race-2")),
        diary.make("last", ["a", "b", "race-1", "race-2"]),
    ]
    run(nodes, max_workers=2)
    next_to = {name: together for name, _, together in diary.seen}
    assert frozenset({"a", "b"}) in next_to.values()
    assert next_to["race-1"] == {"race-1"}
    assert next_to["race-2"] == {"race-2"}
    assert diary.seen[-1][0] == "last"


def test_a_node_that_is_ready_alone_runs_in_the_main_thread(run):
    diary = Diary()
    run([diary.make("first", "start"), diary.make("second", "first")])
    assert {thread for _, thread, _ in diary.seen} == {"MainThread"}


def test_no_more_run_at_once_than_may(run):
    diary = Diary()
    run([diary.make(str(number), "start") for number in range(6)], max_workers=1)
    assert max(len(together) for *_, together in diary.seen) == 1


def fail():
    raise KeyError("a node")


def test_what_a_node_raises_ends_the_run(run):
    diary = Diary()
    nodes = [diary.make("a", "start", work=fail), diary.make("b", "start"), diary.make("c", ["a", "b"])]
    with pytest.raises(KeyError, match="a node"):
        run(nodes)
    assert "c" not in [name for name, *_ in diary.seen]
    assert not run.clock.stopped


def test_an_interruption_ends_the_workers_of_other_threads(run, monkeypatch):
    diary = Diary()

    def interrupt(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr(module, "wait", interrupt)
    with pytest.raises(KeyboardInterrupt):
        run([diary.make("a", "start"), diary.make("b", "start")])
    assert run.clock.stopped
