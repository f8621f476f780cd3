"""Which candidates are not validated: for what there is no time, and what cannot win any more."""

from __future__ import annotations

import time
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

from kedro_hone.building import validation as module
from kedro_hone.building.budget import VALID, Budget, list_valid
from kedro_hone.building.judgement import find_fall
from kedro_hone.comparing.agreement import compare_arrays
from kedro_hone.core.contract.catalogue import Catalogue
from kedro_hone.core.store.clock import Clock
from kedro_hone.core.values.artifact import StepFacts
from kedro_hone.core.values.measurement import BUDGET, Interval, Quality, Status
from kedro_hone.core.values.outcome import Candidate, Refused
from kedro_hone.core.values.samples import Reference

REFERENCE = Reference(
    outputs="o", digest="sha256:0", metric="m", value=1, kind="mean", n=1, cold_start_ms=1, peak_memory_bytes=1,
    since="middle",
)  # fmt: skip
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


def check(setting, monkeypatch, *, run="run", checked, restricted=None):
    """Validate the toy model after 75 of 100 seconds, where another candidate was found valid before."""
    setting = replace(setting, recipe=setting.recipe.model_copy(update={"budget": 100.0}))
    setting = replace(setting, run=setting.run.model_copy(update={"run_id": run}))
    setting.run.clock.begin()
    setting.run.note(VALID, route=["x.other"])
    monkeypatch.setattr(module, "_find_reason_not_to", lambda *_: None)  # it began in time
    monkeypatch.setattr(Clock, "read", lambda _: 75.0)
    monkeypatch.setattr(module, "_check", lambda *_, judge, stopped, **__: judge(**checked(stopped)))
    monkeypatch.setattr(Catalogue, "find_restricted", lambda *_: restricted)
    step = StepFacts(key="k", adaptor="toy.compile", run="before", folder="f", seconds=1.0, outcome="artifact")
    outcome = setting.source.model_copy(update={"steps": (step,)})
    named = Candidate(id="a", route=("toy.compile",), outcome=outcome)
    return setting, module.validate_candidate(named, setting, reference=REFERENCE)


def killed(stopped):
    time.sleep(0.01)
    return {"status": Status.FAILED, "slug": "killed", "reason": "killed" if stopped() else "goes on"}


def test_a_validation_that_the_budget_ended_was_not_tried_and_counts_as_fruitless(setting, monkeypatch):
    """Also where what is validated was built by an earlier run: else each run would spend as much on it."""
    setting, found = check(setting, monkeypatch, checked=killed)
    said = "its validation was ended with the first 70% of the budget, in which it began"
    assert (found.status, found.slug, found.reason) == (Status.NOT_TRIED, BUDGET, said)
    assert found.seconds >= 0.01
    assert found.fruitless
    assert found.renewed
    assert not found.cached


@pytest.mark.parametrize(("restricted", "noted"), [(False, 2), (True, 1)])
def test_what_may_not_be_published_is_no_rival(setting, monkeypatch, restricted, noted):
    toolchain = SimpleNamespace(note="evaluation only") if restricted else None
    setting, found = check(setting, monkeypatch, checked=lambda _: {"status": Status.MEASURED}, restricted=toolchain)
    assert found.publishable is not restricted
    assert len(list_valid(setting.run)) == noted


@pytest.mark.parametrize(("slug", "tried"), [("crash", ["1", "2"]), ("load", ["1"]), ("disk-full", ["1", "2", "3"])])
def test_a_crash_is_kept_once_it_happened_in_two_runs(setting, monkeypatch, slug, tried):
    ran = []

    def fail(stopped):
        ran.append(run)
        return {"status": Status.FAILED, "slug": slug, "reason": "gone"}

    for run in ("1", "2", "3"):
        _, found = check(setting, monkeypatch, run=run, checked=fail)
        assert (found.status, found.slug) == (Status.FAILED, slug)
    assert ran == tried


@pytest.mark.parametrize(("channel", "factor"), [(2, 0.3), (0, -1.0)])
def test_a_fall_names_the_channel_that_is_the_least_like_the_source_s(channel, factor):
    random = np.random.default_rng(0)
    want = {name: random.normal(size=(50, 4, 6)).astype(np.float32) for name in ("boxes", "scores")}
    got = {**want, "scores": want["scores"].copy()}
    got["scores"][:, channel] *= np.float32(factor)
    drop = Interval(estimate=0.3, low=0.2, high=0.4)
    quality = Quality(
        id="a", metric="similarity", higher_is_better=True, kind="mean", source=1.0, candidate=0.7, n=50,
        split="search", limit=0.02, drop=drop,
    )  # fmt: skip
    found = {"one": [compare_arrays(name, want[name], got[name]) for name in want]}
    said = find_fall({"one": quality}, found)
    assert said.startswith("similarity on the search split fell from 1.0000 to 0.7000 at one; the recipe allows 0.02; ")
    assert f"; scores[:, {channel}] is the least like the source's: row " in said
