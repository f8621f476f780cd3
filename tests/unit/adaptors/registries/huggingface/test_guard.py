"""The hooks in huggingface_hub's session: there during a call of ours, and for it alone."""

from __future__ import annotations

import threading

import pytest
from huggingface_hub.utils import _http, close_session, get_session

from kedro_hone.adaptors.registries.huggingface.guard import Bar, Guard, UncheckedError


def list_hooks() -> list[object]:
    return [hook for hooks in get_session().event_hooks.values() for hook in hooks]


def test_the_session_is_as_it_was_after_a_call():
    before, factory = list_hooks(), _http._GLOBAL_CLIENT_FACTORY
    assert len(Guard().run(list_hooks)) == len(before) + 2
    with pytest.raises(KeyError):
        Guard().run({}.popitem)
    assert list_hooks() == before
    assert _http._GLOBAL_CLIENT_FACTORY is factory


def test_two_calls_at_once_take_out_only_their_own_hooks():
    before, inside, leave = list_hooks(), threading.Event(), threading.Event()

    def hold():
        inside.set()
        leave.wait(60)

    other = threading.Thread(target=Guard().run, args=(hold,))
    other.start()
    inside.wait(60)
    Guard().run(list)
    assert len(list_hooks()) == len(before) + 2
    leave.set()
    other.join()
    assert list_hooks() == before


def test_what_another_session_received_is_refused():
    with pytest.raises(UncheckedError):
        Guard().run(close_session)
    with pytest.raises(UncheckedError):
        Bar(total=3)
    assert Guard().run(lambda: Bar(total=3)).received == 0


def test_requests_of_others_are_left_alone():
    guard = Guard()
    guard.run(list)
    thread = threading.Thread(target=guard.check, args=(None,))  # it would fail if it looked at it
    thread.start()
    thread.join()
    assert guard.status is None
