"""Which candidates are not validated, since there is no time for them, and what is tried again."""

from __future__ import annotations

import time
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

from hone_runtime.contract.catalogue import Catalogue
from hone_runtime.values.artifact import StepFacts
from hone_runtime.values.measurement import BUDGET, Interval, Quality, Status
from hone_runtime.values.outcome import Candidate
from hone_runtime.values.samples import Reference
from kedro_hone.core.store.runs import RunFolder
from kedro_hone.search.comparison.agreement import compare_arrays
from kedro_hone.search.plan.budget import Budget
from kedro_hone.search.validation import validation as module
from kedro_hone.search.validation.judgement import find_fall

REFERENCE = Reference(
    outputs="o", digest="sha256:0", metric="m", value=1, kind="mean", n=1, cold_start_ms=1, peak_memory_bytes=1,
    since="middle",
)  # fmt: skip


def name_source(context, name="a"):
    """Return a candidate that is the toy model."""
    return Candidate(id=name, route=("toy.compile",), outcome=context.source)


def measure(context, monkeypatch, *, seconds):
    """Let validations take no time and find all valid, after some seconds of a search of a hundred."""
    monkeypatch.setattr(RunFolder, "read_seconds", lambda _: seconds)
    monkeypatch.setattr(module, "_check", lambda *_, judge, **__: judge(status=Status.MEASURED))
    return replace(context, recipe=context.recipe.model_copy(update={"budget": 100.0}))


def test_what_takes_longer_than_is_left_is_not_validated(context, monkeypatch):
    context = measure(context, monkeypatch, seconds=50.0)
    found = module.validate_candidate(name_source(context), context, reference=REFERENCE, expected=30.0)
    assert (found.status, found.slug) == (Status.NOT_TRIED, BUDGET)
    assert found.reason.startswith("it takes about 30 s, and 20 s are left of the first 70% of the budget of 100 s")
    found = module.validate_candidate(name_source(context), context, reference=REFERENCE, expected=10.0)
    assert found.status is Status.MEASURED


def test_without_an_end_of_the_budget_all_are_validated(context, monkeypatch):
    context = measure(context, monkeypatch, seconds=1e9)
    context = replace(context, recipe=context.recipe.model_copy(update={"budget": "thorough"}))
    found = module.validate_candidate(name_source(context), context, reference=REFERENCE, expected=1e9)
    assert found.status is Status.MEASURED


def test_without_a_valid_candidate_those_are_validated_that_the_budget_left_out(context, monkeypatch):
    """What was built of the budget was for nothing otherwise."""
    context = measure(context, monkeypatch, seconds=75.0)
    judged = [module.validate_candidate(name_source(context, name), context, reference=REFERENCE) for name in "abc"]
    judged = [one.model_copy(update={"made_from": {"from": one.candidate.id}}) for one in judged]
    lost = judged[0].model_copy(update={"status": Status.FAILED, "slug": "load"})
    assert {one.status for one in judged} == {Status.NOT_TRIED}
    found = module.validate_until_valid([lost, *judged[1:]], context, reference=REFERENCE)
    assert [one.status for one in found] == [Status.FAILED, Status.MEASURED, Status.NOT_TRIED]
    assert found[1].made_from == {"from": "b"}
    assert module.validate_until_valid([found[1], judged[2]], context, reference=REFERENCE) == [found[1], judged[2]]
    restricted = found[1].model_copy(update={"publishable": False})
    found = module.validate_until_valid([restricted, judged[2]], context, reference=REFERENCE)
    assert [one.status for one in found] == [Status.MEASURED] * 2
    context.run.stop()
    assert module.validate_until_valid(judged, context, reference=REFERENCE) == judged


def check(context, monkeypatch, *, run="run", checked, restricted=None):
    """Validate the toy model after 75 of 100 seconds, though it began in time."""
    context = replace(context, recipe=context.recipe.model_copy(update={"budget": 100.0}))
    context = replace(context, run=context.run.model_copy(update={"run_id": run}))
    monkeypatch.setattr(Budget, "find_reason", lambda *_: None)
    monkeypatch.setattr(RunFolder, "read_seconds", lambda _: 75.0)
    monkeypatch.setattr(module, "_check", lambda *_, judge, stopped, **__: judge(**checked(stopped)))
    monkeypatch.setattr(Catalogue, "find_restricted", lambda *_: restricted)
    step = StepFacts(key="k", adaptor="toy.compile", run="before", folder="f", seconds=1.0, outcome="artifact")
    outcome = context.source.model_copy(update={"steps": (step,)})
    named = Candidate(id="a", route=("toy.compile",), outcome=outcome)
    return context, module.validate_candidate(named, context, reference=REFERENCE)


def killed(stopped):
    time.sleep(0.01)
    return {"status": Status.FAILED, "slug": "killed", "reason": "killed" if stopped() else "goes on"}


def test_a_validation_that_the_budget_ended_was_not_tried(context, monkeypatch):
    context, found = check(context, monkeypatch, checked=killed)
    said = "its validation was ended with the first 70% of the budget, in which it began"
    assert (found.status, found.slug, found.reason) == (Status.NOT_TRIED, BUDGET, said)
    assert found.seconds >= 0.01
    assert found.renewed
    assert not found.cached


@pytest.mark.parametrize("restricted", [False, True])
def test_what_may_not_be_published_says_so(context, monkeypatch, restricted):
    toolchain = SimpleNamespace(note="evaluation only") if restricted else None
    _, found = check(context, monkeypatch, checked=lambda _: {"status": Status.MEASURED}, restricted=toolchain)
    assert found.publishable is not restricted


@pytest.mark.parametrize(("slug", "tried"), [("crash", ["1", "2"]), ("load", ["1"]), ("disk-full", ["1", "2", "3"])])
def test_a_crash_is_kept_once_it_happened_in_two_runs(context, monkeypatch, slug, tried):
    ran = []

    def fail(stopped):
        ran.append(run)
        return {"status": Status.FAILED, "slug": slug, "reason": "gone"}

    for run in ("1", "2", "3"):
        _, found = check(context, monkeypatch, run=run, checked=fail)
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


@pytest.mark.parametrize("trained", [True, False])
def test_whether_it_was_trained_decides_how_rows_without_scores_are_compared(monkeypatch, trained):
    found = []
    monkeypatch.setattr(module, "has_labels", lambda *_: True)
    monkeypatch.setattr(module, "choose_shares", lambda *_, **__: {})
    monkeypatch.setattr(module, "find_fall", lambda *_: "")
    monkeypatch.setattr(module, "find_conflict", lambda *_, **__: "")
    monkeypatch.setattr(module, "find_wrong", lambda *_, trained: found.append(trained) or "")
    samples = SimpleNamespace(splits={"search": None})
    module._find_wrong({}, {}, SimpleNamespace(samples=samples), exact=False, trained=trained)
    assert found == [trained]
