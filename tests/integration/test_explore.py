"""The search over options with ONNX Runtime: a better choice is found and races, a hopeless one is dropped before."""

from __future__ import annotations

from dataclasses import replace

import pytest
from digits_bench import make_bench, read_splits

from kedro_hone.building.budget import start_budget
from kedro_hone.building.trials import build_trial, find_route
from kedro_hone.building.validation import validate_candidate
from kedro_hone.comparing.probe import measure_together
from kedro_hone.core.machine.hardware import read_host
from kedro_hone.core.values.measurement import Exploration, Status
from kedro_hone.core.values.outcome import Candidate
from kedro_hone.nodes.explore import Search, explore, find_contenders
from kedro_hone.nodes.race import race
from kedro_hone.nodes.transform import apply_adaptor
from kedro_hone.recipe.plan import make_plan
from kedro_hone.recipe.space import Choices

pytestmark = pytest.mark.toolchain

QUANTIZER, COMPILER = "onnxruntime.int8-static", "onnxruntime.session"
NAME = "onnx.onnxruntime_int8_static.onnxruntime_session"
SLOW, FAST = ["Gemm"], ["Conv", "Gemm", "Relu", "MaxPool"]
"""Nearly all of this network's time is in its convolutions."""


@pytest.fixture(scope="module")
def bench(digits_models, tmp_path_factory):
    model, splits = digits_models / "onnx" / "model.onnx", read_splits(digits_models)
    folder = tmp_path_factory.mktemp("explore")
    return make_bench(folder, model, splits, form="onnx", runtime="onnxruntime", shapes={"batch64": {"batch": 64}})


def search(bench, *, own, choice):
    """Build the route with its own operators, and search with another choice of them; return the search and it."""
    plan = make_plan(bench.setting.recipe)
    quantizer = type(plan.options[QUANTIZER]).model_validate({"operators": own})
    spaces = {QUANTIZER: {"operators": Choices(choices=(choice,))}}
    plan = replace(plan, options={**plan.options, QUANTIZER: quantizer}, spaces=spaces)
    outcome = bench.setting.source
    for adaptor in (QUANTIZER, COMPILER):
        outcome = apply_adaptor(
            parent=outcome,
            reference=bench.reference,
            adaptor=adaptor,
            options=plan.options[adaptor],
            **bench.common,
        )
    candidate = Candidate(id=NAME, route=(QUANTIZER, COMPILER), outcome=outcome)
    own_one = validate_candidate(candidate, bench.setting, reference=bench.reference)
    found = Search(bench.setting, bench.reference, plan, start_budget(bench.setting))
    found.begin(find_contenders({"own": own_one}, bench.setting))
    assert found.run() == ""
    return found, own_one


def test_without_a_valid_candidate_nothing_is_tried(bench):
    found = explore(reference=bench.reference, **bench.common)
    assert (found.validations, found.left, found.reason) == (
        (),
        0,
        "no candidate is valid, or none fits into race.memory_mb",
    )


@pytest.mark.nightly
def test_a_better_choice_is_found_and_wins_the_race(bench):
    found, own = search(bench, own=SLOW, choice=FAST)
    (trial,) = found.made
    assert trial.status is Status.MEASURED, trial.reason
    assert trial.candidate.id == f"onnx.onnxruntime_int8_static+operators={'-'.join(FAST)}.onnxruntime_session"
    assert trial.candidate.options == {QUANTIZER: {"operators": FAST}}

    result = race(setting=bench.setting, exploration=Exploration(validations=(trial,), workers=3), own=own)

    assert result.standings[0].id == trial.candidate.id
    assert result.explored.workers == 3


@pytest.fixture
def ten_times_as_long(monkeypatch):
    """Let each call of a trial count as ten, for the probe to drop it on a busy machine too."""

    def measure(artifacts, setting, timings):
        seconds = measure_together(artifacts, setting, timings)
        for measured in timings.rounds:
            for name in measured.keys() - {NAME}:
                measured[name] = {shape: [10 * took for took in calls] for shape, calls in measured[name].items()}
        return seconds

    monkeypatch.setattr("kedro_hone.nodes.explore.measure_together", measure)


@pytest.mark.usefixtures("ten_times_as_long")
def test_a_hopeless_choice_is_dropped_by_the_probe_and_does_not_race(bench):
    found, own = search(bench, own=FAST, choice=SLOW)
    (trial,) = found.made
    assert (trial.status, trial.slug) == (Status.DROPPED, "probe")
    assert "times as fast as" in trial.reason

    result = race(setting=bench.setting, exploration=Exploration(validations=(trial,)), own=own)

    assert [one.id for one in result.standings] == [own.candidate.id]
    assert trial.candidate.id in result.validated


def test_a_trial_without_changes_is_the_routes_own_candidate(bench):
    found, own = search(bench, own=FAST, choice=SLOW)
    route = find_route(own.candidate, found.plan, read_host())
    assert route is not None

    again = build_trial(route, {}, found.plan, bench.setting, reference=bench.reference)

    assert again.model_dump(exclude={"options"}) == own.candidate.model_dump(exclude={"options"})
