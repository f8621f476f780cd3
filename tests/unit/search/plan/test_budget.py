from __future__ import annotations

import math
from types import SimpleNamespace

import pytest

from hone_runtime.contract.toolchain import Limits
from hone_runtime.values.artifact import Stage
from hone_runtime.values.outcome import Failed, FailureClass
from kedro_hone.core.store import runs
from kedro_hone.core.store.runs import RunFolder
from kedro_hone.search.plan.budget import (
    INTERRUPTED,
    LEAST_TRAINING,
    NAMED,
    SMALL,
    Phase,
    bound_confirmation,
    bound_validation,
    choose_phase,
    expect_seconds,
    start_budget,
)


def make_adaptor(seconds=600.0, *, trains=False):
    return SimpleNamespace(toolchain=SimpleNamespace(limits=Limits(seconds=seconds)), trains=trains)


@pytest.fixture
def elapse(monkeypatch):
    times = {"now": 0.0}
    monkeypatch.setattr(runs.time, "time", lambda: times["now"])
    return lambda seconds: times.update(now=times["now"] + seconds)


@pytest.fixture
def make_setting(tmp_path):
    def make(budget, size=1):
        return SimpleNamespace(
            recipe=SimpleNamespace(budget=budget),
            run=RunFolder(root=tmp_path, run_id="r", project=tmp_path),
            store=SimpleNamespace(measure=lambda _: size),
            source=None,
        )

    return make


def test_phases_end_one_after_the_other(make_setting, elapse):
    budget = start_budget(make_setting(100.0))
    elapse(40)
    left = [budget.find_left(phase) for phase in Phase]
    assert left == pytest.approx([15.0, 30.0, 40.0])


def test_what_takes_longer_than_is_left_is_not_started(make_setting, elapse):
    budget = start_budget(make_setting(100.0))
    elapse(40)
    assert budget.find_reason(Phase.BUILD, 14.0) is None
    assert budget.find_reason(Phase.BUILD, None) is None
    share = "of the first 55% of the budget of 100 s, which is for building; raise hone.budget for more"
    assert budget.find_reason(Phase.BUILD, 20.0) == f"it takes about 20 s, and 15 s are left {share}"
    elapse(16)
    assert budget.find_reason(Phase.BUILD, None) == f"nothing is left {share}"


def test_the_reason_names_the_share_of_the_phase(make_setting, elapse):
    budget = start_budget(make_setting(100.0))
    elapse(90)
    said = [budget.find_reason(phase, None).split(";")[0] for phase in Phase]
    assert said == [
        f"nothing is left of the first {share}% of the budget of 100 s, which is for {phases}"
        for share, phases in (
            (55, "building"),
            (70, "building and validating"),
            (80, "building, validating and racing"),
        )
    ]


def test_thorough_has_no_end(make_setting, elapse):
    budget = start_budget(make_setting("thorough"))
    elapse(1e9)
    assert budget.find_reason(Phase.BUILD, 1e9) is None
    assert math.isinf(budget.find_left(Phase.RACE))
    assert budget.cut(make_adaptor()) == Limits(seconds=600.0)


@pytest.mark.parametrize(("size", "factor"), [(1, 1.0), (SMALL, 1.0), (4 * SMALL, 4.0)])
def test_a_named_budget_grows_with_the_model(make_setting, size, factor):
    assert start_budget(make_setting("default", size)).seconds == NAMED["default"] * factor
    assert start_budget(make_setting(90.0, size)).seconds == 90.0


def test_its_seconds_go_on_in_the_next_step(make_setting, elapse):
    start_budget(make_setting(100.0))
    elapse(10)
    assert start_budget(make_setting(100.0)).run.read_seconds() == 10.0


def test_a_build_may_last_until_validating_is_over(make_setting, elapse):
    budget = start_budget(make_setting(100.0))
    elapse(40)
    assert budget.cut(make_adaptor()).seconds == pytest.approx(30.0)
    assert budget.cut(make_adaptor(5.0)).seconds == 5.0
    elapse(1000)
    assert budget.cut(make_adaptor()).seconds == 1.0


def test_a_training_ends_early_enough_for_the_steps_after_it(make_setting, elapse):
    """Two networks were trained for 100 s until 70 % of the budget, and their export could not start any more."""
    budget = start_budget(make_setting(100.0))
    elapse(40)
    assert budget.cut(make_adaptor(trains=True)).seconds == pytest.approx(15.0)
    timed_out = Failed(by="x", failure=FailureClass.TIME_OUT, reason="")
    assert "when the first 55% of the budget were spent" in budget.explain_end(
        timed_out, Limits(seconds=15.0), make_adaptor(trains=True)
    )
    trained, converter = SimpleNamespace(is_trained=True), SimpleNamespace(trains=False)
    assert choose_phase(converter, trained, 20.0) is Phase.VALIDATE


def test_a_training_starts_if_there_is_time_for_some_epochs(make_setting, elapse):
    trains, quantizes = SimpleNamespace(trains=True), SimpleNamespace(trains=False)
    assert [expect_seconds(trains, known) for known in (None, 300.0)] == [LEAST_TRAINING] * 2
    assert [expect_seconds(quantizes, known) for known in (None, 300.0)] == [None, 300.0]
    budget = start_budget(make_setting(100.0))
    elapse(10)
    assert budget.find_reason(Phase.BUILD, LEAST_TRAINING) is None
    elapse(20)
    reason = budget.find_reason(Phase.BUILD, LEAST_TRAINING, trains=True)
    assert "a training needs at least 40 s, and 25 s are left" in reason
    assert reason.endswith("raise hone.budget, or name the adaptor in hone.adaptors: then it begins first")


def test_an_interruption_ends_every_budget(make_setting):
    budget = start_budget(make_setting("thorough"))
    budget.run.stop()
    assert budget.find_reason(Phase.VALIDATE, None) == INTERRUPTED
    assert budget.find_left(Phase.RACE) == 0.0


@pytest.mark.parametrize(
    ("failure", "cut", "stopped", "said"),
    [
        (FailureClass.TIME_OUT, 9.0, False, "it was ended after 9 s, when the first 70% of the budget were spent"),
        (FailureClass.TIME_OUT, 600.0, False, ""),
        (FailureClass.KILLED, 600.0, True, INTERRUPTED),
        (FailureClass.KILLED, 600.0, False, ""),
        (FailureClass.CRASH, 9.0, True, ""),
    ],
)
def test_what_the_budget_ended_is_told_from_what_failed(make_setting, failure, cut, stopped, said):
    budget = start_budget(make_setting(100.0))
    if stopped:
        budget.run.stop()
    failed = Failed(by="x", failure=failure, reason="r")
    assert budget.explain_end(failed, Limits(seconds=cut), make_adaptor()) == said


@pytest.mark.parametrize(
    ("stage", "parents", "expected", "phase"),
    [
        (Stage.COMPILE, 1, 2.0, Phase.VALIDATE),
        (Stage.COMPILE, 1, None, Phase.BUILD),
        (Stage.COMPILE, 0, 2.0, Phase.BUILD),
        (Stage.COMPRESS, 1, 2.0, Phase.BUILD),
    ],
)
def test_the_last_step_of_what_was_built_may_begin_while_others_are_validated(stage, parents, expected, phase):
    adaptor = SimpleNamespace(stage=stage, trains=False)
    parent = SimpleNamespace(steps=("built",) * parents, is_trained=False)
    assert choose_phase(adaptor, parent, expected) is phase


def test_a_search_that_has_ended_starts_nothing_and_says_what_it_would_have_taken(make_setting):
    budget = start_budget(make_setting(100.0))
    budget.run.end_search("a is valid")
    assert budget.find_reason(Phase.BUILD, 3.0) == "it takes about 3 s, and a is valid"
    assert budget.find_reason(Phase.VALIDATE, None) == "a is valid"
    assert budget.find_reason(Phase.RACE, None) is None, "what is valid is raced"
    budget.run.stop()
    assert budget.find_reason(Phase.BUILD, 3.0) == INTERRUPTED


@pytest.mark.parametrize(("spent", "ended"), [(71.0, True), (69.0, False)])
def test_a_validation_ends_with_its_part_of_the_budget_unless_it_insists(make_setting, elapse, spent, ended):
    context = make_setting(100.0)
    find_end, insists = bound_validation(context, insists=False), bound_validation(context, insists=True)
    elapse(spent)
    said = "its validation was ended with the first 70% of the budget, in which it began"
    assert (find_end(), insists()) == (said if ended else "", "")
    context.run.stop()
    assert (find_end(), insists()) == (INTERRUPTED, INTERRUPTED)


@pytest.mark.parametrize(
    ("budget", "size", "own", "limit"),
    [
        ("default", SMALL, None, 600.0),
        ("default", 10 * SMALL, None, 1800.0),
        ("thorough", SMALL, None, 3600.0),
        (5000.0, SMALL, None, 5000.0),
        (1e9, SMALL, 30.0, 30.0),
    ],
)
def test_the_confirmation_has_an_end(make_setting, budget, size, own, limit):
    context = make_setting(budget, size)
    context.recipe.confirm, context.source = SimpleNamespace(seconds=own), SimpleNamespace(digest="sha256:a")
    assert bound_confirmation(context) == limit
    assert not context.run.search_began
