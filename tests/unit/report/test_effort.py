"""What was done for a comparison, and what was found in the store."""

from __future__ import annotations

import pytest

from hone_runtime.values.artifact import Artifact, StepFacts
from hone_runtime.values.decision import Decision, Verdict
from hone_runtime.values.measurement import Confirmation, RaceResult, Status, Validation
from hone_runtime.values.outcome import Candidate, Failed, FailureClass
from hone_runtime.values.samples import Reference
from kedro_hone.report.effort import find_new_steps, find_new_validations, sum_effort


def make_step(key, run, seconds=1.0, number=1):
    folder = f"steps/{number:03d}-toy.a"
    return StepFacts(key=key, adaptor="toy.a", run=run, folder=folder, seconds=seconds, outcome="artifact")


def make_validation(*steps, run="", since="2", digest="sha256:0"):
    outcome = Artifact(format="toy", digest=digest, inputs=(), outputs=(), steps=steps)
    candidate = Candidate(id="a", route=("toy.a",), outcome=outcome)
    return Validation(candidate=candidate, status=Status.MEASURED, run=run, since=since, seconds=0.5)


@pytest.mark.parametrize(
    ("step", "run", "steps", "validations", "cached"),
    [
        ("1", "1", 0, 0, True),
        ("1", "2", 0, 1, False),
        ("2", "1", 1, 0, False),
        ("3", "3", 1, 1, False),
        ("", "1", 0, 0, True),  # recorded before records named their run
        ("1", "", 0, 0, False),  # never validated
    ],
)
def test_what_was_done_since_the_baseline_is_new(step, run, steps, validations, cached):
    found = make_validation(make_step("k", step), run=run)

    assert (len(find_new_steps([found])), len(find_new_validations([found])), found.cached) == (
        steps,
        validations,
        cached,
    )


def test_a_shared_step_counts_once_and_twins_are_validated_once():
    first = make_validation(make_step("k", "2", 2.0, number=7), run="2")
    second = make_validation(make_step("k", "2", 2.0, number=7), make_step("l", "2", 3.0, number=3), run="2")

    assert [step.key for step in find_new_steps([first, second])] == ["l", "k"]
    assert len(find_new_validations([first, second])) == 1
    assert (first.build_seconds, second.build_seconds) == (2.0, 5.0)


@pytest.mark.parametrize(("baseline", "workers"), [("2", 8), ("1", 7)])
def test_the_effort_is_summed_over_the_phases(baseline, workers):
    reference = Reference(
        outputs="", digest="", metric="m", value=1.0, kind="mean", n=1, cold_start_ms=1.0, peak_memory_bytes=1,
        run=baseline, since="2",
    )  # fmt: skip
    old, new = (
        make_validation(make_step("k", "1", 2.0), run="1", digest="sha256:1"),
        make_validation(make_step("l", "2", 3.0), run="2"),
    )
    race = RaceResult(
        validations=(old, new), standings=(), source_latency=(), rounds=1, seconds=10.0, budget_ended=False,
        timings="", workers=1,
    )  # fmt: skip
    confirmation = Confirmation(
        finalists=(), source_latency=(), control=(), launches=1, looks=1, seconds=20.0, timings="", workers=2
    )
    decision = Decision(verdict=Verdict.KEEP, reasons=(), workers=3)

    effort = sum_effort(reference, race=race, confirmation=confirmation, decision=decision)

    assert effort["phase_seconds"] == {"build": 3.0, "validate": 0.5, "race": 10.0, "confirm": 20.0}
    assert effort["optimization_seconds"] == 2.0 + 3.0 + 0.5 + 10.0 + 20.0
    assert (effort["counts"].builds, effort["counts"].validations, effort["counts"].launches) == (1, 1, workers)


def test_how_an_artifact_was_made_is_no_part_of_what_it_is():
    outcome = make_validation(make_step("k", "1")).candidate.outcome

    assert outcome.manifest() == outcome.model_copy(update={"steps": ()}).manifest()


@pytest.mark.parametrize(
    ("step", "run", "reused"),
    [("1", "", True), ("2", "", False), (None, "1", True), (None, "2", False), (None, "", False)],
)
def test_failures_of_earlier_runs_are_counted(step, run, reused):
    facts = () if step is None else (make_step("k", step).model_copy(update={"outcome": "failed"}),)
    outcome = Failed(by="toy.a", failure=FailureClass.CRASH, reason="gone", steps=facts)
    candidate = Candidate(id="a", route=("toy.a",), outcome=outcome)
    found = Validation(candidate=candidate, status=Status.FAILED, run=run, since="2")
    assert found.reused_failure is reused
