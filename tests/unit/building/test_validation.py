"""Which candidates are not validated: for what there is no time, and what cannot win any more."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from kedro_hone.building import validation as module
from kedro_hone.building.budget import Budget
from kedro_hone.core.values.outcome import Candidate, Refused

HOPELESS = "on similar models it was far behind"


@pytest.fixture
def find_reason(monkeypatch):
    """Return a function that asks why a candidate, built after 50 of some seconds, is not validated."""

    def find_reason(*, seconds, expected=None, options=None):
        class Memory:
            def __init__(self, *_):
                pass

            def guess_validation(self, route, changes):
                assert (route, changes) == (("x.slow",), options or {})
                return expected

        def explain_hopeless(memory, routes, rivals, *, recipe):
            assert isinstance(memory, Memory)
            assert recipe is None
            assert (routes, [*rivals]) == ([("x.slow",)], [["x.fast"]])
            return HOPELESS

        clock = SimpleNamespace(stopped=False, read=lambda: 50.0)
        monkeypatch.setattr(module, "Memory", Memory)
        monkeypatch.setattr(module, "explain_hopeless", explain_hopeless)
        monkeypatch.setattr(module, "start_budget", lambda _: Budget(seconds, clock))
        run = SimpleNamespace(read_notes=lambda event: [{"route": ["x.fast"]}] if event == "valid" else [])
        setting = SimpleNamespace(store=None, source=None, recipe=None, run=run)
        refused = Refused(by="x.slow", reason="")
        named = Candidate(id="slow", route=("x.slow",), outcome=refused, options=options or {})
        return module._find_reason_not_to(named, setting)

    return find_reason


def test_what_takes_longer_than_is_left_is_not_validated(find_reason):
    said = find_reason(seconds=100, expected=30.0)
    assert said.startswith("it takes about 30 s, and 20 s are left of the first 70% of the budget of 100 s")


def test_what_was_far_behind_what_is_valid_by_now_is_not_validated(find_reason):
    assert find_reason(seconds=100, expected=10.0) == HOPELESS
    assert find_reason(seconds=100) == HOPELESS


def test_a_trial_is_validated_whatever_its_route_gained(find_reason):
    assert find_reason(seconds=100, expected=10.0, options={"x.slow": {"level": 2}}) is None


def test_without_an_end_of_the_budget_all_are_validated(find_reason):
    assert find_reason(seconds=float("inf"), expected=1e9) is None
