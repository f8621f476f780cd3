from __future__ import annotations

import random
from collections import Counter
from contextlib import ExitStack
from dataclasses import replace

import pytest

from hone_runtime.values.artifact import Artifact
from hone_runtime.values.outcome import Failed, FailureClass
from hone_runtime.values.samples import Samples
from kedro_hone.core.store.artifacts import Store
from kedro_hone.core.store.runs import RunFolder
from kedro_hone.core.workers.host.session import Block
from kedro_hone.recipe.schema import read_recipe
from kedro_hone.search.context import RunContext
from kedro_hone.search.race.launches import (
    Burst,
    Contestant,
    _compare_clients,
    _size_bursts,
    measure_round,
    plan_burst,
    start_contestants,
)
from kedro_hone.search.race.timings import Timings

BURSTS = {"b1": Burst(calls=3, warmup=2), "b64": Burst(calls=2, warmup=0)}


class Clock:
    """Stands for a worker: what is tested is who is measured when, and who stands still meanwhile."""

    called, differing, unsteady = 0, 0, 0

    def __init__(self, name, journal, *, fails=False, took=100):
        self.name, self.journal, self.fails, self.stopped, self.took = name, journal, fails, True, took
        self.bursts = {}

    def resume(self):
        self.stopped = False
        self.journal.append(("resume", self.name))

    def pause(self):
        self.stopped = True
        self.journal.append(("pause", self.name))

    def time(self, shape, calls, *, warmup=0):
        assert not self.stopped
        self.journal.append(("time", self.name, shape))
        self.bursts[shape] = Burst(calls=calls, warmup=warmup)
        self.called = self.called + calls + warmup
        if self.fails:
            return Failed(by=self.name, failure=FailureClass.CRASH, reason="gone")
        return [self.took] * calls

    def time_together(self, shape, calls, *, warmup=0):
        times = self.time(shape, calls, warmup=warmup)
        return times if isinstance(times, Failed) else Block(times, self.took * calls // 2)  # two at a time

    def run_together(self, feeds, *, threads, calls):
        self.journal.append(("run_together", feeds.name, threads, calls))
        return self.differing if threads > 1 else self.unsteady


def entrants(journal, names, failing=()):
    return [
        Contestant(id=name, session=Clock(name, journal, fails=name in failing), bursts=BURSTS, stack=ExitStack())
        for name in names
    ]


def test_only_the_measured_one_runs():
    journal: list[tuple[str, ...]] = []
    racers = entrants(journal, "abc")
    measure_round(racers, order=random.Random(0), timings=Timings())
    alive: set[str] = set()
    for event, name, *_ in journal:
        alive = alive | {name} if event == "resume" else alive - {name} if event == "pause" else alive
        assert len(alive) <= 1

    assert Counter(event for event, *_ in journal) == {"resume": 3, "time": 6, "pause": 3}
    assert all(racer.session.bursts == BURSTS for racer in racers)


def test_the_order_is_random_and_seeded():
    def order(seed):
        journal: list[tuple[str, ...]] = []
        source, timings = random.Random(seed), Timings()
        for _ in range(5):
            measure_round(entrants(journal, "abcdef"), order=source, timings=timings)
        return [name for event, name, *_ in journal if event == "resume"]

    assert order(1) == order(1) != order(2)
    assert order(1)[:6] != order(1)[6:12]


def test_who_fails_is_noted_and_measured_no_more():
    journal: list[tuple[str, ...]] = []
    timings, order = Timings(), random.Random(0)
    racers = entrants(journal, "ab", failing="b")
    measure_round(racers, order=order, timings=timings)
    measure_round(racers, order=order, timings=timings)

    assert set(timings.failures) == {"b"}
    assert [*map(list, timings.rounds)] == [["a"], ["a"]]
    assert sum(event == "time" and name == "b" for event, name, *_ in journal) == 1


def test_late_entrants_know_when_they_came_in():
    journal: list[tuple[str, ...]] = []
    timings, order = Timings(), random.Random(0)
    early, late = entrants(journal, "ab")
    measure_round([early], order=order, timings=timings)
    measure_round([early, late], order=order, timings=timings)

    assert [{*measured} for measured in timings.rounds] == [{"a"}, {"a", "b"}]
    assert (len(timings.select("a")), len(timings.select("b"))) == (2, 1)


@pytest.mark.parametrize(
    ("fastest_ms", "burst"),
    [
        (0.0001, Burst(calls=5000, warmup=1250)),
        (1, Burst(calls=50, warmup=12)),
        (10, Burst(calls=5, warmup=2)),
        (16, Burst(calls=3, warmup=2)),
        (25, Burst(calls=2, warmup=1)),
        (60, Burst(calls=2, warmup=1)),
        (999, Burst(calls=2, warmup=1)),
        (1000, Burst(calls=2, warmup=0)),
        (5000, Burst(calls=2, warmup=0)),
    ],
)
def test_a_burst_is_filled_within_bounds_and_long_calls_need_no_warm_up(fastest_ms, burst):
    fastest = round(fastest_ms * 1e6)

    assert plan_burst([9 * fastest, fastest, 2 * fastest], burst_ms=50) == burst


@pytest.mark.parametrize(
    ("took_ms", "burst", "sized"),
    [(60, Burst(calls=2, warmup=1), 2), (40, Burst(calls=2, warmup=1), 9), (1, Burst(calls=50, warmup=12), 9)],
)
def test_a_call_that_is_longer_than_a_burst_is_not_made_for_its_size_again(took_ms, burst, sized):
    clock = Clock("a", [], took=took_ms * 1_000_000)
    entrant = _size_bursts("a", clock, clients={"b1": 1}, burst_ms=50, stack=ExitStack())

    assert (entrant.bursts, clock.called, clock.stopped) == ({"b1": burst}, sized, True)


@pytest.mark.parametrize(
    ("took_ms", "burst"),
    [
        (1, Burst(calls=100, warmup=24, clients=4)),  # two at a time: 50 ms
        (9, Burst(calls=12, warmup=8, clients=4)),
        (60, Burst(calls=8, warmup=4, clients=4)),
        (5000, Burst(calls=8, warmup=0, clients=4)),
        (0.0001, Burst(calls=5000, warmup=1248, clients=4)),
    ],
)
def test_clients_make_as_many_calls_each_and_at_least_two(took_ms, burst):
    clock = Clock("a", [], took=round(took_ms * 1e6))
    entrant = _size_bursts("a", clock, clients={"bulk": 4}, burst_ms=50, stack=ExitStack())

    assert entrant.bursts == {"bulk": burst}


def test_a_round_has_a_block_of_each_shape_with_clients():
    (racer,) = entrants([], "a")
    timings = Timings()
    bursts = {"b1": BURSTS["b1"], "bulk": Burst(calls=4, warmup=2, clients=2)}
    measure_round([replace(racer, bursts=bursts)], order=random.Random(0), timings=timings)

    assert timings.rounds == [{"a": {"b1": [100] * 3, "bulk": Block([100] * 4, 200)}}]


@pytest.mark.parametrize(
    ("differing", "unsteady", "reason"),
    [(0, 0, None), (2, 0, "2 of 12 calls by 4 clients at once returned other outputs than alone"), (9, 3, None)],
)
def test_who_mixes_the_results_of_its_clients_does_not_race(tmp_path, differing, unsteady, reason):
    clock = Clock("a", [])
    clock.differing, clock.unsteady = differing, unsteady
    failed = _compare_clients(clock, tmp_path, clients=4, name="a")

    assert (failed and failed.reason) == reason


def test_without_an_environment_there_is_no_worker(tmp_path, monkeypatch):
    monkeypatch.setenv("HONE_HOME", str(tmp_path / "home"))
    artifact = Artifact(format="onnx", digest="sha256:0", inputs=(), outputs=(), runtime="deepsparse")
    context = RunContext(
        source=artifact,
        samples=Samples(digest="sha256:1", splits={}, shapes={}, program="", program_digest=""),
        recipe=read_recipe({"model": {"uri": "m"}}),
        store=Store(tmp_path / "store"),
        run=RunFolder(root=tmp_path / "runs", run_id="one", project=tmp_path),
    )
    timings = Timings()
    with ExitStack() as stack:
        assert start_contestants({"a": artifact}, context, burst_ms=1, timings=timings, stack=stack) == {}

    assert (timings.failures["a"].failure, timings.workers) == (FailureClass.INSTALL, 0)
