"""Counts of contestants' operators, one at a time and after the measurements."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path
from types import SimpleNamespace

from hone_runtime.values.outcome import Failed, FailureClass
from kedro_hone.search.race.launches import Contestant
from kedro_hone.search.race.operators import count_operators

CONTEXT = SimpleNamespace(batches={"b1": Path("b1.npz"), "b64": Path("b64.npz")})
CRASH = Failed(by="x", failure=FailureClass.CRASH, reason="gone")


class Worker:
    """Stands for a worker: what is tested is who runs when, and what becomes of a failure."""

    def __init__(self, name, journal, answer):
        self.name, self.journal, self.answer = name, journal, answer

    def resume(self):
        self.journal.append(("resume", self.name))

    def pause(self):
        self.journal.append(("pause", self.name))

    def count_operators(self, feeds, *, seconds):
        assert seconds > 0
        assert self.journal[-1][1:] == (self.name,) or self.journal[-1] == ("count", self.name, "b1")
        self.journal.append(("count", self.name, feeds.stem))
        return self.answer


def count(**answers):
    journal = []
    workers = [
        Contestant(id=name, session=Worker(name, journal, answer), bursts={}, stack=ExitStack())
        for name, answer in answers.items()
    ]
    return list(count_operators(workers, CONTEXT)), journal


def test_each_is_counted_at_every_shape_while_all_others_are_stopped():
    found, journal = count(a={"int8": {"Conv": 2}}, b={"fp32": {"Conv": 2}})
    assert [(one.id, one.shape, one.counts) for one in found] == [
        ("a", "b1", {"int8": 2}),
        ("a", "b64", {"int8": 2}),
        ("b", "b1", {"fp32": 2}),
        ("b", "b64", {"fp32": 2}),
    ]
    assert [event for event, *_ in journal] == ["resume", "count", "count", "pause"] * 2


def test_a_failure_and_an_unable_runtime_are_not_known(caplog):
    with caplog.at_level("INFO"):
        found, _ = count(a=CRASH, b=None)
    assert [one.counts for one in found] == [None] * 4
    assert [message for message in caplog.messages if "gone" in message] == [
        "operators a at b1: not counted: gone",
        "operators a at b64: not counted: gone",
    ]
