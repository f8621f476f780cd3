"""Which nodes of a search run next to each other, and what ends a run."""

from __future__ import annotations

import threading
from types import MappingProxyType, SimpleNamespace

import pytest
from kedro.framework.hooks.manager import _NullPluginManager
from kedro.io import DataCatalog, MemoryDataset
from kedro.pipeline import Pipeline, node

from kedro_hone.runner import schedule
from kedro_hone.runner import search as module
from kedro_hone.runner.schedule import ALONE
from kedro_hone.runner.search import SearchRunner


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
    monkeypatch.setattr(schedule, "read_plan", lambda: SimpleNamespace(routes=SimpleNamespace(steps=())))
    folder = SimpleNamespace(stopped=False)
    folder.stop = lambda: setattr(folder, "stopped", True)

    def run(nodes, *, more=MappingProxyType({}), **arguments):
        known = {"start": MemoryDataset(1), "run": MemoryDataset(folder, copy_mode="assign")}
        catalog = DataCatalog({**known, **more})
        return SearchRunner(**arguments).run(Pipeline(nodes), catalog, _NullPluginManager())

    run.folder = folder
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


def test_a_value_that_no_node_reads_any_more_is_released(run):
    diary, released = Diary(), []

    class Watched(MemoryDataset):
        def _release(self):
            released.append((self.name, [name for name, *_ in diary.seen]))

    nodes = [diary.make("first", "start"), diary.make("second", "first"), diary.make("last", ["first", "second"])]
    datasets = {name: Watched() for name in ("first", "second", "last")}
    for name, dataset in datasets.items():
        dataset.name = name
    found = run(nodes, more=datasets)
    assert {name for name, _ in released} == {"first", "second"}
    assert all(seen == ["first", "second", "last"] for _, seen in released)
    assert found["last"].load() == "last"


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
    assert not run.folder.stopped


def test_an_interruption_ends_the_workers_of_other_threads(run, monkeypatch):
    diary = Diary()

    def interrupt(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr(module, "wait", interrupt)
    with pytest.raises(KeyboardInterrupt):
        run([diary.make("a", "start"), diary.make("b", "start")])
    assert run.folder.stopped
