"""When a step may begin, and what is tried again of it."""

from __future__ import annotations

import logging
from dataclasses import replace

import pytest
from toolchains.toy import adaptor as toy

from hone_runtime.contract.adaptor import Need
from hone_runtime.contract.hardware import read_host
from hone_runtime.values.artifact import StepFacts
from hone_runtime.values.outcome import Failed, FailureClass, Refused
from kedro_hone.core.store.runs import RunFolder
from kedro_hone.search.steps.step import _Step, transform


@pytest.mark.parametrize(("spent", "built"), [(50.0, True), (60.0, True), (69.5, False), (75.0, False)])
def test_the_last_step_of_what_was_built_may_begin_until_validating_is_over(context, monkeypatch, spent, built):
    context = replace(context, recipe=context.recipe.model_copy(update={"budget": 100.0}))
    facts = StepFacts(key="k", adaptor="toy.compile", run="r", folder="f", seconds=1.0, outcome="artifact")
    monkeypatch.setattr(RunFolder, "read_seconds", lambda _: spent)
    parent = context.source.model_copy(update={"steps": (facts,)})
    outcome = transform(toy.COMPILE, toy.COMPILE.options(), parent, context, reference=None, expected=1.0)
    assert (outcome.kind == "artifact") is built, outcome
    assert built or outcome.reason.startswith("it takes about 1 s, and ")


def run_in(context, run):
    """Return the context of another run."""
    return replace(context, run=context.run.model_copy(update={"run_id": run}))


@pytest.mark.parametrize(
    ("failure", "tried"),
    [(FailureClass.CRASH, ["1", "2"]), (FailureClass.COMPILE, ["1"]), (FailureClass.DISK_FULL, ["1", "1", "2", "3"])],
)
def test_a_crash_is_kept_once_it_happened_in_two_runs(context, monkeypatch, failure, tried):
    """It may have been an accident of the machine; one that passes is never kept, and any other one at once."""
    ran = []

    def crash(step, *rest):
        ran.append(step.context.run.run_id)
        return Failed(by="toy.compile", failure=failure, reason="gone")

    monkeypatch.setattr("kedro_hone.search.steps.step._Step._run", crash)
    for run in ("1", "1", "2", "3"):
        outcome = transform(toy.COMPILE, toy.COMPILE.options(), context.source, run_in(context, run), reference=None)
        assert outcome.failure is failure
    assert ran == tried


def test_a_crash_that_was_none_is_forgotten(context, monkeypatch):
    with monkeypatch.context() as patched:
        crash = Failed(by="toy.compile", failure=FailureClass.CRASH, reason="gone")
        patched.setattr("kedro_hone.search.steps.step._Step._run", lambda *_: crash)
        transform(toy.COMPILE, toy.COMPILE.options(), context.source, run_in(context, "1"), reference=None)
    for run in ("2", "3"):
        outcome = transform(toy.COMPILE, toy.COMPILE.options(), context.source, run_in(context, run), reference=None)
        assert outcome.kind == "artifact"
    assert outcome.steps[-1].run == "2"


class ShapedOptions(toy.CompileOptions):
    """Those of an adaptor that compiles graphs for single shapes, too."""

    fixed_shapes: bool = True


SHAPED = replace(toy.COMPILE, options=ShapedOptions)
CRASH = Failed(by="toy.compile", failure=FailureClass.CRASH, reason="crashed with SIGSEGV")


@pytest.mark.parametrize("fault", [CRASH.model_copy(update={"failure": FailureClass.COMPILE}), CRASH])
def test_a_crash_in_the_graphs_of_single_shapes_loses_no_candidate(context, monkeypatch, caplog, fault):
    run, ran = _Step._run, []

    def crash(step, within, folder, decided, *rest):
        ran.append((folder.name, decided.options.fixed_shapes))
        return fault if decided.options.fixed_shapes else run(step, within, folder, decided, *rest)

    monkeypatch.setattr("kedro_hone.search.steps.step._Step._run", crash)
    outcome = transform(SHAPED, ShapedOptions(), context.source, context, reference=None)
    if fault is not CRASH:
        assert outcome.failure is FailureClass.COMPILE
        assert len(ran) == 1
        return
    assert outcome.kind == "artifact"
    assert [shaped for _, shaped in ran] == [True, False]
    assert outcome.steps[-1].folder == f"steps/{ran[1][0]}"
    assert "toy.compile crashed, and is tried again without fixed_shapes" in caplog.text


def test_a_step_that_crashes_without_the_graphs_of_single_shapes_tells_the_first_crash(context, monkeypatch):
    ran = []

    def crash(_step, _within, folder, decided, *_rest):
        ran.append((folder.name, decided.options.fixed_shapes))
        return CRASH.model_copy(update={"reason": f"crashed, {decided.options.fixed_shapes}"})

    monkeypatch.setattr("kedro_hone.search.steps.step._Step._run", crash)
    outcome = transform(SHAPED, ShapedOptions(), context.source, context, reference=None)
    assert (outcome.reason, outcome.steps[-1].folder) == ("crashed, True", f"steps/{ran[0][0]}")
    transform(SHAPED, ShapedOptions(fixed_shapes=False), context.source, context, reference=None)
    assert [shaped for _, shaped in ran] == [True, False, False]


def test_where_there_is_no_time_for_a_second_try_the_crash_is_told(context, monkeypatch):
    crash = Failed(by="toy.compile", failure=FailureClass.CRASH, reason="gone")
    monkeypatch.setattr("kedro_hone.search.steps.step._Step._run", lambda *_: crash)
    transform(toy.COMPILE, toy.COMPILE.options(), context.source, run_in(context, "1"), reference=None)
    late = run_in(replace(context, recipe=context.recipe.model_copy(update={"budget": 100.0})), "2")
    monkeypatch.setattr(RunFolder, "read_seconds", lambda _: 99.0)
    outcome = transform(toy.COMPILE, toy.COMPILE.options(), context.source, late, reference=None)
    assert outcome.failure is FailureClass.CRASH


@pytest.mark.parametrize(
    ("need", "limits"), [(Need.DROP_LIMIT, (None, 0.05)), (Need.CONVERSION_LIMIT, (0.1, None)), (None, (None, None))]
)
def test_the_limits_of_gates_are_in_the_job_and_the_key_of_adaptors_that_need_them(context, tmp_path, need, limits):
    adaptor = replace(toy.COMPILE, needs=frozenset({need} - {None}))

    def make(**gates):
        gates = context.recipe.gates.model_copy(update=gates)
        own = replace(context, recipe=context.recipe.model_copy(update={"gates": gates}))
        step = _Step(adaptor, context.source, own, None, read_host(), None, "")
        job = step._make_job(tmp_path, adaptor.options())
        return (job.conversion, job.drop), step._make_key("environment", adaptor.options())[0]

    found, key = make(conversion=0.1, drop=0.05)
    assert found == limits
    changed = make(conversion=0.2, drop=0.06)[1] != key
    assert changed == (need is not None)


def test_a_training_that_cannot_go_on_loses_nothing(context, monkeypatch):
    """Its earlier result and its checkpoint stay, for a run with more time."""
    trains = replace(toy.COMPRESS, trains=True)
    monkeypatch.setattr("kedro_hone.search.steps.step._Step._has_labels", lambda _: True)
    monkeypatch.setattr("kedro_hone.search.steps.step.goes_on", lambda *_, run: run == "2")
    first = transform(trains, toy.ToyOptions(), context.source, run_in(context, "1"), reference=None)
    assert first.kind == "artifact"
    failed = Failed(by=trains.name, failure=FailureClass.CRASH, reason="gone")
    for outcome in (failed, Refused(by=trains.name, slug="budget", reason="late")):
        with monkeypatch.context() as patched:
            patched.setattr("kedro_hone.search.steps.step._Step._run", lambda *_, given=outcome: given)
            again = transform(trains, toy.ToyOptions(), context.source, run_in(context, "2"), reference=None)
        assert again.digest == first.digest
    assert transform(trains, toy.ToyOptions(), context.source, run_in(context, "3"), reference=None) == first


def test_the_log_has_the_values_that_tell_variants_apart(context, caplog):
    caplog.set_level(logging.INFO)
    options = toy.COMPILE.options()
    transform(toy.COMPILE, options, context.source, context, reference=None, title="toy.compile (level=2)")
    assert "built     toy.compile (level=2) in " in caplog.text
