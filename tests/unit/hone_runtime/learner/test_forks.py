from __future__ import annotations

import importlib.util
import multiprocessing
import os
import weakref
from dataclasses import replace
from pathlib import Path

import pytest

import kedro_hone
from hone_runtime.learner.forks import ForkedSession

_SPEC = importlib.util.spec_from_file_location("hone_test_toy", Path(__file__).with_name("toy.py"))
toy = importlib.util.module_from_spec(_SPEC)
_SPEC.loader.exec_module(toy)
HANG = 120


class Session:
    """A runtime's session that knows in which process it was opened."""

    def __init__(self):
        self.process, self.calls = os.getpid(), 0

    def run(self, feeds):
        self.calls += 1
        return {"opened here": self.process == os.getpid(), **feeds}


def fork_of(*, survives, threads):
    return ForkedSession(Session, runtime="toy", survives=survives, threads=threads)


@pytest.fixture
def folder(tmp_path, install):
    install(replace(toy.make_toolchain(tmp_path / "toolchain"), survives_fork=True))
    toy.make_model(tmp_path / "winner")
    return tmp_path / "winner"


def call_in_child(call):
    """Run something in a process that is forked now; return what it returned, or its error's class and text."""
    context = multiprocessing.get_context("fork")
    ours, theirs = context.Pipe()

    def work():
        try:
            theirs.send(call())
        except BaseException as error:  # noqa: BLE001 - it is sent to the parent
            theirs.send((type(error).__name__, str(error)))
        os._exit(0)

    process = context.Process(target=work)
    process.start()
    try:
        assert ours.poll(HANG), "it hangs"
        return ours.recv()
    finally:
        process.kill()
        process.join()


@pytest.mark.parametrize("threads", [1, 2])
def test_what_survives_is_opened_again_once(threads):
    session = fork_of(survives=True, threads=threads)
    found = session._find()
    assert session.run({"x": 1}) == {"opened here": True, "x": 1}
    said = call_in_child(lambda: (session.run({}), session.run({}), session.calls))
    assert said == ({"opened here": True}, {"opened here": True}, 2)
    assert session._find() is found
    assert found.calls == 1


def test_with_one_thread_what_does_not_survive_goes_on():
    session = fork_of(survives=False, threads=1)
    assert call_in_child(lambda: session.run({})) == {"opened here": False}


def test_with_several_threads_each_use_of_what_does_not_survive_is_an_error():
    session = fork_of(survives=False, threads=2)
    for use in (lambda: session.run({}), session._find, lambda: session.calls, lambda: session.run({})):
        kind, said = call_in_child(use)
        assert (kind, "toy does not survive that" in said) == ("RuntimeError", True)
    assert session.run({}) == {"opened here": True}


def test_a_fork_of_a_fork_is_another_process_again():
    session = fork_of(survives=True, threads=2)

    def use():
        session.run({})
        return call_in_child(lambda: (session.run({}), session.calls))

    assert call_in_child(use) == ({"opened here": True}, 1)


def test_a_fork_never_closes_the_session_of_its_parent():
    session = fork_of(survives=True, threads=2)
    closed = []
    weakref.finalize(session._find(), closed.append, "closed")

    def use():
        session.run({})  # another one is in its place
        return closed

    assert call_in_child(use) == []


def test_a_fork_opens_it_again(folder):
    learner = kedro_hone.load(folder)
    run, (x, y) = learner.run, toy.predict(3)
    learner(x)
    opened = learner._session._find()
    calls = call_in_child(lambda: (learner(x).tolist(), run({"x": x})["y"].tolist(), len(learner._session.calls)))
    assert calls == (y.tolist(), y.tolist(), 2)  # counted by a session of its own
    assert learner._session._find() is opened


def test_a_runtime_that_does_not_survive_says_so(tmp_path, install):
    install(toy.make_toolchain(tmp_path / "toolchain"))
    toy.make_model(tmp_path / "winner")
    learner = kedro_hone.load(tmp_path / "winner", threads=2)
    kind, said = call_in_child(lambda: learner(toy.predict(1)[0]))
    assert kind == "RuntimeError"
    assert "toy does not survive that" in said
    assert "post_fork" in said
    x, y = toy.predict(1)
    alone = kedro_hone.load(tmp_path / "winner", threads=1)
    assert call_in_child(lambda: alone(x).tolist()) == y.tolist()


def test_a_shape_that_was_called_before_the_fork_is_refused_after_it(tmp_path, install):
    install(toy.make_toolchain(tmp_path / "toolchain"))
    toy.make_model(tmp_path / "winner")
    learner = kedro_hone.load(tmp_path / "winner", threads=2)
    x, y = toy.predict(1)
    learner(x)
    kind, said = call_in_child(lambda: learner(x))
    assert (kind, "toy does not survive that" in said) == ("RuntimeError", True)
    assert learner(x).tolist() == y.tolist()


def test_a_session_that_is_being_opened_has_nothing_private():
    with pytest.raises(AttributeError):
        ForkedSession.__new__(ForkedSession)._opened  # noqa: B018 - it is asked for
