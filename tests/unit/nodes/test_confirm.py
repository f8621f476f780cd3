from __future__ import annotations

from dataclasses import replace

import pytest

from hone_runtime.errors import HoneError
from hone_runtime.values.artifact import Artifact
from hone_runtime.values.measurement import Latency, RaceResult, Standing, Status, Validation
from hone_runtime.values.outcome import Candidate, Failed, FailureClass
from kedro_hone.core.gates import Gate
from kedro_hone.core.stats.plan import Finding, LaunchStep
from kedro_hone.core.stats.speed import Faster
from kedro_hone.core.store.artifacts import Store
from kedro_hone.core.store.runs import RunFolder
from kedro_hone.nodes.confirm import CONTROL, Launches, confirm
from kedro_hone.recipe.schema import read_recipe
from kedro_hone.search.context import RunContext
from kedro_hone.search.plan.confirmation import format_expected_time, format_look, format_plan

LOOKS = (7, 10, 13, 16, 20)


def step(*verdicts, launches=0):
    findings = {f"f{place}": Finding(verdict=one, launches=7) for place, one in enumerate(verdicts)}
    undecided = tuple(name for name, one in findings.items() if one.verdict is Faster.UNDECIDED and launches)
    return LaunchStep(findings=findings, undecided=undecided, launches=launches)


def test_before_the_first_launch_it_says_how_many_there_may_be():
    assert format_plan(3, LOOKS) == "3 finalists, in 7 to 20 launches"
    assert format_plan(1, (4,)) == "1 finalist, in 4 launches"


@pytest.mark.parametrize(
    ("after", "said"),
    [
        (
            step(Faster.YES, Faster.UNDECIDED, Faster.UNDECIDED, launches=3),
            "7 launches: 1 of 3 decided, next look at 10, at most 20",
        ),
        (step(Faster.YES, Faster.NO), "7 launches: all decided"),
        (step(Faster.YES, Faster.UNDECIDED), "7 launches: 1 of 2 decided, and there is no further look"),
        (step(), "7 launches: no finalist is left"),
    ],
)
def test_after_a_look_it_says_what_is_decided_and_what_may_follow(after, said):
    assert format_look(after, count=7, looks=LOOKS) == said
    assert len("00:00:00 confirmed " + said) <= 80


@pytest.mark.parametrize(("load", "told"), [(None, False), (0.25, False), (0.551, True)])
def test_a_machine_that_is_too_busy_to_decide_is_told_before_the_first_launch(
    tmp_path, monkeypatch, caplog, load, told
):
    outcome = Artifact(format="onnx", digest="", inputs=(), outputs=())
    candidate = Validation(candidate=Candidate(id="a", route=("a",), outcome=outcome), status=Status.MEASURED)
    run = RunFolder(root=tmp_path / "runs", run_id="one", project=tmp_path)
    recipe = read_recipe({"model": {"uri": "models:/x/1"}})
    context = RunContext(source=outcome, samples=None, recipe=recipe, store=Store(tmp_path / "store"), run=run)
    race = RaceResult(
        validations=(candidate,),
        standings=(Standing(id="a", status=Status.MEASURED, rounds=3),),
        source_latency=(), rounds=3, seconds=1.0, budget_ended=False, timings="k", other_load=load,
    )  # fmt: skip
    said = []
    monkeypatch.setattr(Launches, "run", lambda _: said.extend(caplog.messages))
    with caplog.at_level("WARNING"):
        confirm(context=context, result=race)
    warnings = [message for message in said if message.startswith("confirm   in the race other processes took 0.551 ")]
    assert len(warnings) == len(said) == told


def test_of_finalists_that_are_as_fast_the_one_with_the_smaller_error_comes_first(tmp_path, monkeypatch):
    outcome = Artifact(format="onnx", digest="", inputs=(), outputs=())
    errors = {"lossy": 0.05, "exact": 3e-7}
    validations = [
        Validation(
            candidate=Candidate(id=name, route=(name,), outcome=outcome), status=Status.MEASURED, largest_error=error
        )
        for name, error in errors.items()
    ]
    run = RunFolder(root=tmp_path / "runs", run_id="one", project=tmp_path)
    recipe = read_recipe({"model": {"uri": "models:/x/1"}, "confirm": {"looks": [4]}})
    context = RunContext(source=outcome, samples=None, recipe=recipe, store=Store(tmp_path / "store"), run=run)
    race = RaceResult(
        validations=tuple(validations),
        standings=tuple(Standing(id=name, status=Status.MEASURED, rounds=3) for name in errors),
        source_latency=(), rounds=3, seconds=1.0, budget_ended=False, timings="k",
    )  # fmt: skip
    measured = {"lossy": [2.0, 2.2, 2.1, 2.15], "exact": [2.1, 2.0, 2.15, 2.1], CONTROL: [1.0, 1.0, 1.0, 1.0]}

    def launch(launches, names, order):
        launches.count += 1
        launches._ratios = {name: {"batch1": measured[name][: launches.count]} for name in [*names, CONTROL]}

    monkeypatch.setattr(Launches, "_launch", launch)
    found = confirm(context=context, result=race)
    assert [one.id for one in found.finalists] == ["exact", "lossy"]


def line_up(tmp_path, *names, restricted=(), finalists=3):
    """Return what a confirmation is of: candidates in the order of the race."""
    outcome = Artifact(format="onnx", digest="", inputs=(), outputs=())
    validations = tuple(
        Validation(
            candidate=Candidate(id=name, route=(name,), outcome=outcome),
            status=Status.MEASURED,
            publishable=name not in restricted,
        )
        for name in names
    )
    run = RunFolder(root=tmp_path / "runs", run_id="one", project=tmp_path)
    recipe = read_recipe({"model": {"uri": "models:/x/1"}, "confirm": {"finalists": finalists}})
    context = RunContext(source=outcome, samples=None, recipe=recipe, store=Store(tmp_path / "store"), run=run)
    standings = tuple(Standing(id=name, status=Status.MEASURED, rounds=3) for name in names)
    race = RaceResult(
        validations=validations, standings=standings, source_latency=(), rounds=3, seconds=1.0, budget_ended=False,
        timings="k",
    )  # fmt: skip
    return {"context": context, "result": race}


@pytest.mark.parametrize(
    ("restricted", "confirmed"), [({"e1", "e2"}, ["a", "b"]), ({"e1", "e2", "a"}, ["b", "e1"]), ((), ["e1", "e2"])]
)
def test_what_may_not_be_published_takes_no_finalists_place(tmp_path, monkeypatch, restricted, confirmed):
    monkeypatch.setattr(Launches, "run", lambda _: None)
    found = confirm(**line_up(tmp_path, "e1", "e2", "a", "b", restricted=restricted, finalists=2))
    assert sorted(one.id for one in found.finalists) == confirmed


def test_what_misses_a_gate_by_its_validation_takes_no_finalists_place(tmp_path, monkeypatch):
    monkeypatch.setattr(Launches, "run", lambda _: None)
    given = line_up(tmp_path, "large", "small", "unknown", finalists=2)
    recipe = given["context"].recipe.model_dump() | {"gates": {"size_mb": 1.0}}
    given["context"] = replace(given["context"], recipe=read_recipe(recipe))
    sizes = {"large": 2_000_000, "small": 900_000, "unknown": None}
    race = given["result"]
    validations = [one.model_copy(update={"size_bytes": sizes[one.candidate.id]}) for one in race.validations]
    given["result"] = race.model_copy(update={"validations": tuple(validations)})
    assert sorted(one.id for one in confirm(**given).finalists) == ["small", "unknown"]


@pytest.mark.parametrize(("safe", "confirmed"), [("c", ["a", "c"]), ("b", ["a", "b"]), ("", ["a", "b"])])
def test_one_finalist_is_one_that_the_gate_probably_can_prove(tmp_path, monkeypatch, safe, confirmed):
    monkeypatch.setattr(Launches, "run", lambda _: None)
    monkeypatch.setattr("kedro_hone.nodes.confirm.is_provable", lambda one, _: one.candidate.id == safe)
    found = confirm(**line_up(tmp_path, "a", "b", "c", finalists=2))
    assert sorted(one.id for one in found.finalists) == confirmed


def test_where_every_finalist_failed_nothing_more_is_launched(tmp_path, monkeypatch):
    launched = []

    def launch(launches, names, order):
        launched.append(names)
        launches.count += 1
        launches._ratios[CONTROL] = {"batch1": [1.0] * launches.count}
        launches.timings.failures |= {
            name: Failed(by=name, failure=FailureClass.CRASH, reason="gone") for name in names[:1]
        }

    monkeypatch.setattr(Launches, "_launch", launch)
    found = confirm(**line_up(tmp_path, "a", "b"))
    assert launched == [["a", "b"], ["b"]]
    assert [one.reason for one in found.finalists] == ["gone", "gone"]


def test_who_fails_after_a_look_is_described_as_failed(tmp_path, monkeypatch):
    def launch(launches, names, order):
        launches.count += 1
        steady = [1.0, 1.02, 0.98, 1.01]
        launches._ratios[CONTROL] = {"batch1": [steady[n % 4] for n in range(launches.count)]}
        if launches.count > 7:
            launches.timings.failures["a"] = Failed(by="a", failure=FailureClass.CRASH, reason="gone")
        else:
            launches._ratios["a"] = {"batch1": [1.05 * (1 + (-1) ** n / 10) for n in range(launches.count)]}

    monkeypatch.setattr(Launches, "_launch", launch)
    found = confirm(**line_up(tmp_path, "a"))
    assert found.launches == 8
    assert [(one.reason, one.verdict) for one in found.finalists] == [("gone", "")]


@pytest.mark.parametrize(
    ("end", "said"),
    [
        ("limit", "the confirmation reached its limit of 600 s (hone.confirm.seconds) after 4 of 7 launches"),
        ("person", "the confirmation was interrupted after 4 of 7 launches"),
    ],
)
def test_who_is_cut_short_stays_undecided_with_what_was_measured(tmp_path, monkeypatch, caplog, end, said):
    given = line_up(tmp_path, "a", "b")

    def launch(launches, names, order):
        launches.count += 1
        for name, factor in {CONTROL: 1.0, "a": 2.0, "b": 3.0}.items():
            launches._ratios[name] = {"batch1": [factor * (1 + n / 100) for n in range(launches.count)]}
        if launches.count == 4 and end == "limit":
            launches._ends = 0.0
        elif launches.count == 4:
            given["context"].run.stop()

    monkeypatch.setattr(Launches, "_launch", launch)
    with caplog.at_level("INFO"):
        found = confirm(**given)
    assert (found.launches, found.cut) == (4, said)
    assert [(one.id, one.verdict, one.launches) for one in found.finalists] == [
        ("b", "undecided", 4),
        ("a", "undecided", 4),
    ]
    assert all(one.deciding.ratio.estimate > 1.5 for one in found.finalists)
    told = [
        message for message in caplog.messages if "it ends after 600 s at the latest (hone.confirm.seconds)" in message
    ]
    assert len(told) == 1


def test_a_launch_that_the_limit_cuts_short_counts_for_nothing(tmp_path, monkeypatch):
    """Its workers were ended: that is no failure of the source."""
    given = line_up(tmp_path, "a")

    def start_contestants(artifacts, context, *, timings, stopped, **rest):
        assert not stopped()
        context.run.stop()
        assert stopped()
        timings.failures |= {
            name: Failed(by=name, failure=FailureClass.KILLED, reason="interrupted") for name in artifacts
        }
        return {}

    monkeypatch.setattr("kedro_hone.nodes.confirm.start_contestants", start_contestants)
    found = confirm(**given)
    said = "the confirmation was interrupted after 0 of 7 launches"
    assert (found.launches, found.cut, [one.reason for one in found.finalists]) == (0, said, [said])


def test_a_search_that_was_interrupted_is_confirmed(tmp_path, monkeypatch):
    def launch(launches, names, order):
        launches.count += 1
        launches._ratios = {name: {"batch1": [2.0 + n / 100 for n in range(launches.count)]} for name in names}
        launches._ratios[CONTROL] = {"batch1": [1.0 + n / 100 for n in range(launches.count)]}

    monkeypatch.setattr(Launches, "_launch", launch)
    given = line_up(tmp_path, "a")
    given["context"].run.stop()
    found = confirm(**given)
    assert (found.launches, found.cut, found.finalists[0].verdict) == (7, "", "yes")


@pytest.mark.parametrize(
    ("launch", "said"),
    [
        (None, "it ends"),
        (10.0, "this takes about 70 to 200 s; it ends"),
        (60.0, "this takes about 420 to 600 s; it ends"),
    ],
)
def test_how_long_it_takes_is_said_before(launch, said):
    assert format_expected_time(launch, LOOKS, limit=600.0).startswith(said)


def test_on_a_busy_machine_it_takes_at_least_so_long():
    said = "this takes about 70 to 200 s if other processes use 45% of the cores, as in the race; it ends after"
    assert format_expected_time(10.0, LOOKS, limit=600.0, load=0.45).startswith(said)


def test_a_gate_of_the_machine_that_needs_the_confirmation_is_not_asked_before_it(tmp_path, monkeypatch, caplog):
    def evaluate(self, limit, candidate, source):
        raise HoneError("gate-invalid", "It needs a speed-up.", why="There is none.", hint="Wait.")

    monkeypatch.setattr(Gate, "evaluate", evaluate)
    monkeypatch.setattr(Launches, "run", lambda _: None)
    with caplog.at_level("WARNING"):
        confirm(**line_up(tmp_path, "a"))
    assert caplog.messages == []


def test_where_there_is_nothing_to_confirm_the_race_has_the_times_of_the_source(tmp_path):
    recipe = read_recipe({"model": {"uri": "models:/x/1"}})
    context = RunContext(source=None, samples=None, recipe=recipe, store=Store(tmp_path), run=None)
    raced = (Latency(shape="batch1", p50_ms=4.0, n=100),)
    race = RaceResult(
        validations=(), standings=(), source_latency=raced, rounds=0, seconds=0.0, budget_ended=False, timings="k"
    )
    found = confirm(context=context, result=race)
    assert (found.finalists, found.source_latency, found.launches, found.seconds) == ((), raced, 0, 0.0)
