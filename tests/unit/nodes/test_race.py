from __future__ import annotations

import random
from contextlib import ExitStack
from pathlib import Path
from types import SimpleNamespace

import pytest

from hone_runtime.values.artifact import Artifact
from hone_runtime.values.measurement import Status, Validation, Validations
from hone_runtime.values.outcome import Candidate, Failed, FailureClass, Refused
from hone_runtime.values.samples import Samples
from kedro_hone.core.store.artifacts import Store
from kedro_hone.core.store.runs import RunFolder
from kedro_hone.nodes.race import Race, race
from kedro_hone.recipe.prior import Usual
from kedro_hone.recipe.schema import read_recipe
from kedro_hone.search.context import RunContext
from kedro_hone.search.plan.forecast import Forecast
from kedro_hone.search.race.launches import Contestant


@pytest.fixture(autouse=True)
def _in_a_folder_of_its_own(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)  # the run's events and its clock are written


def validation(name, digest="", *, route=("toolchain.what",), status=Status.MEASURED, memory=None, publishable=True):
    outcome = Artifact(format="toy", digest=digest or f"sha256:{name}", inputs=(), outputs=())
    candidate = Candidate(id=name, route=route, outcome=outcome)
    return Validation(candidate=candidate, status=status, peak_memory_bytes=memory, publishable=publishable)


def make_setting(*, budget=600.0, finalists=3, **keys):
    recipe = {"model": {"uri": "models:/x/1"}, "race": keys, "budget": budget, "confirm": {"finalists": finalists}}
    recipe = read_recipe(recipe)
    samples = Samples(digest="sha256:0", splits={}, shapes={}, program="", program_digest="")
    run = RunFolder(root=Path("runs"), run_id="one", project=Path())
    source = Artifact(format="toy", digest="sha256:1", inputs=(), outputs=())
    return RunContext(source=source, samples=samples, recipe=recipe, store=Store(Path("store")), run=run)


def line_up(*validations, **keys):
    """Return a race before its start."""
    return Race(validations, make_setting(**keys))


def find_ends(race):
    return {standing.id: (standing.status, standing.reason) for standing in race.rank()}


def test_of_the_same_artifact_the_shorter_route_races():
    race = line_up(
        validation("b.long", "sha256:1", route=("x", "y")), validation("a", "sha256:1"), validation("c", "sha256:2")
    )
    assert [*race.artifacts] == ["a", "c"]
    assert find_ends(race)["b.long"] == (Status.REFUSED, "nothing-to-do: the same artifact as a")


def test_only_what_is_valid_races():
    refused = Validation(
        candidate=Candidate(id="r", route=(), outcome=Refused(by="x", reason="no")), status=Status.REFUSED
    )
    race = line_up(validation("bad", "sha256:1", status=Status.DROPPED), refused)

    assert (race.artifacts, race.rank()) == ({}, ())


def test_all_that_are_valid_race_where_the_recipe_sets_no_number():
    race = line_up(validation("a", "sha256:1"), validation("b", "sha256:2"))
    assert find_ends(race) == dict.fromkeys("ab", (Status.MEASURED, ""))


def test_those_that_there_is_no_place_for_are_not_tried():
    race = line_up(validation("a", "sha256:1"), validation("b", "sha256:2"), candidates=1)
    assert find_ends(race)["b"] == (Status.NOT_TRIED, "the recipe's race.candidates was reached")


class Session:
    """Stands for a worker that holds some memory."""

    def __init__(self, mebibytes):
        self.mebibytes = mebibytes

    def memory_bytes(self):
        return self.mebibytes << 20


@pytest.mark.parametrize(("limit", "heat"), [(1400, ["a", "b"]), (1399, ["a"]), (100, ["a"])])
def test_a_heat_is_what_fits_next_to_the_memory_that_the_source_really_takes(limit, heat):
    race = line_up(*(validation(name, f"sha256:{name}", memory=300 << 20) for name in "abcd"), memory_mb=limit)
    race._running["source"] = Contestant(id="source", session=Session(800), bursts={}, stack=ExitStack())

    assert race._fill_heat() == heat
    assert race._waiting == [name for name in "abcd" if name not in heat]


def test_no_more_rounds_than_the_recipe_allows(monkeypatch):
    """A block that is not the last of a number of rounds is cut: 8 rounds in blocks of 5 are 5 and 3."""
    race = line_up(validation("a", "sha256:a"), validation("b", "sha256:b"), rounds=8, block=5)
    for name in ("source", "a", "b", "c", "d"):
        race._running[name] = Contestant(id=name, session=Session(1), bursts={}, stack=ExitStack())
    rounds = []
    monkeypatch.setattr("kedro_hone.nodes.race.measure_round", lambda *_, **__: rounds.append(1))
    monkeypatch.setattr(race, "_drop_slow", lambda: None)
    monkeypatch.setattr(race, "_describe_best", lambda: "")
    race._run_heat(random.Random(0))
    assert len(rounds) == 8


@pytest.mark.parametrize("rounds", [0, 1, 2])
def test_who_fails_early_has_a_standing(rounds):
    """Of one round there is no interval, and there was an error that ended the run."""
    race = line_up(validation("a", "sha256:a"), validation("b", "sha256:b"))
    measured = {"batch1": [1000, 1100]}
    for number in range(5):
        race.timings.rounds.append({"source": measured, "a": measured, **({"b": measured} if number < rounds else {})})
    race._left["b"] = {"status": Status.FAILED, "reason": "it crashed"}
    standings = {one.id: one for one in race.rank()}
    assert standings["b"].rounds == rounds
    assert (standings["b"].objective is not None) is (rounds > 1)
    assert standings["a"].objective is not None


@pytest.fixture
def hold(monkeypatch):
    """Return what runs a race whose candidates have these speeds; those of none fail when they are launched."""

    def run(race, *, launch_seconds=0.0, round_seconds=0.0, left=None, **speeds):
        heats, clock, spread = [], [0.0], iter(range(10**6))

        def start_contestants(artifacts, context, *, burst_ms, timings, stack, compares):
            heats.append([*artifacts])
            clock[0] += launch_seconds
            for name in artifacts.keys() - {"source"} - speeds.keys():
                timings.failures[name] = Failed(by=name, failure=FailureClass.CRASH, reason="gone")
            held = [name for name in artifacts if name not in timings.failures]
            return {name: Contestant(id=name, session=Session(1), bursts={}, stack=ExitStack()) for name in held}

        def measure_round(running, *, order, timings):
            clock[0] += round_seconds
            noise = 1 + next(spread) % 3 / 100
            taken = {one.id: int(1e6 * noise / speeds.get(one.id, 1.0)) for one in running}
            shapes = race._recipe.shapes
            timings.rounds.append({name: {shape: [ns] for shape in shapes} for name, ns in taken.items()})

        monkeypatch.setattr("kedro_hone.nodes.race.time", SimpleNamespace(monotonic=lambda: clock[0]))
        monkeypatch.setattr("kedro_hone.nodes.race.start_contestants", start_contestants)
        monkeypatch.setattr("kedro_hone.nodes.race.measure_round", measure_round)
        if left is not None:
            race._budget = SimpleNamespace(find_reason=lambda *_: "nothing is left" if clock[0] >= left else None)
        return race.run(), heats[1:]

    return run


def test_the_fastest_last_and_the_others_are_dropped(hold):
    race = line_up(*(validation(name) for name in "abcd"), finalists=2)
    assert hold(race, a=1.0, b=4.0, c=2.0, d=3.0) == (False, [["a", "b", "c", "d"]])
    ends = find_ends(race)
    assert [*ends][:2] == ["b", "d"]
    assert {name: status for name, (status, _) in ends.items()} == {
        "b": Status.MEASURED, "d": Status.MEASURED, "c": Status.DROPPED, "a": Status.DROPPED,
    }  # fmt: skip


def test_what_may_not_be_published_drops_nobody_and_takes_no_place(hold):
    restricted = [validation(name, publishable=False) for name in ("e1", "e2", "e3")]
    race = line_up(*restricted, validation("a"), validation("b"), finalists=2)
    hold(race, e1=9.0, e2=8.5, e3=8.0, a=2.0, b=3.0)
    assert {name for name, (status, _) in find_ends(race).items() if status is Status.MEASURED} >= {"a", "b"}
    assert race.rank()[0].id == "e1"


def test_what_the_gate_cannot_prove_drops_nothing_that_it_can(hold, monkeypatch):
    """Five fast ones whose drop is too large are compared among themselves, and end no race of the others."""
    monkeypatch.setattr("kedro_hone.nodes.race.is_provable", lambda one, _: one.candidate.id in "ab")
    race = line_up(*(validation(name) for name in "abcdefg"), finalists=2)
    hold(race, a=1.0, b=2.0, c=9.0, d=8.0, e=5.0, f=4.0, g=3.0)
    ends = find_ends(race)
    assert {name for name, (status, _) in ends.items() if status is Status.MEASURED} == {*"abcd"}
    assert [*ends][:2] == ["c", "d"]


def test_the_next_heat_runs_beside_as_many_of_either_kind_as_can_be_confirmed(hold, monkeypatch):
    monkeypatch.setattr("kedro_hone.nodes.race.is_provable", lambda one, _: one.candidate.id in "ab")
    race = line_up(*(validation(name, memory=2 << 20) for name in "abcd"), memory_mb=2, finalists=1)
    assert hold(race, a=1.0, b=2.0, c=9.0, d=8.0)[1] == [["a"], ["b"], ["c"], ["d"]]
    ends = find_ends(race)
    assert [ends[name][0] for name in "bc"] == [Status.MEASURED] * 2


def test_what_may_not_be_published_is_launched_last(hold):
    race = line_up(validation("a", publishable=False, memory=1), validation("b", memory=1), memory_mb=1)
    assert hold(race, a=9.0, b=2.0)[1] == [["b"], ["a"]]
    assert [status for status, _ in find_ends(race).values()] == [Status.MEASURED] * 2


def test_what_may_not_be_published_ends_no_race_of_what_may(hold):
    lined = [validation("e", publishable=False, memory=2 << 20), *(validation(name, memory=2 << 20) for name in "ab")]
    race = line_up(*lined, memory_mb=2)
    assert hold(race, left=0.0, e=9.0, b=2.0) == (True, [["a"], ["b"]])
    assert find_ends(race)["b"][0] is Status.MEASURED


def test_what_may_be_published_races_for_an_artifact_that_both_make():
    race = line_up(validation("e", "sha256:1", publishable=False), validation("a", "sha256:1", route=("x", "y")))
    assert [*race.artifacts] == ["a"]


def test_after_an_interruption_no_more_is_launched(hold, monkeypatch):
    race = line_up(*(validation(name, memory=2 << 20) for name in "abc"), memory_mb=2)
    monkeypatch.setattr(type(race._context.run), "is_stopped", lambda _: True)
    assert hold(race, left=0.0, b=2.0) == (True, [["a"]])


def test_launching_counts_for_the_budget_too(hold):
    """With 0.5 s left, and launches of 0.3 s, there are two heats and not ten; the source's is the first."""
    race = line_up(*(validation(name, memory=2 << 20) for name in "abcdefghij"), memory_mb=2)
    ended, heats = hold(race, launch_seconds=0.3, left=0.5, **dict.fromkeys("abcdefghij", 2.0))
    assert (ended, heats) == (True, [["a"]])
    assert find_ends(race)["j"] == (Status.NOT_TRIED, "nothing is left")


def test_the_race_has_a_budget_of_its_own_of_measuring_alone(hold):
    """Five rounds of 2 s are over one of 9 s, and launches of an hour do not count."""
    race = line_up(*(validation(name, memory=2 << 20) for name in "abc"), memory_mb=2, seconds=9.0, block=5)
    ended, heats = hold(race, launch_seconds=3600.0, round_seconds=2.0, **dict.fromkeys("abc", 2.0))
    assert (ended, heats) == (True, [["a"]])
    assert find_ends(race)["c"] == (Status.NOT_TRIED, "the race's budget of 9 s was spent")


def test_one_is_measured_however_little_is_left(hold):
    race = line_up(*(validation(name, memory=2 << 20) for name in "abc"), memory_mb=2)
    assert hold(race, left=0.0, b=2.0, c=3.0) == (True, [["a"], ["b"]])
    ends = find_ends(race)
    assert [ends[name][0] for name in "abc"] == [Status.FAILED, Status.MEASURED, Status.NOT_TRIED]


def test_they_are_launched_in_the_order_in_which_they_are_given(hold):
    lined = [validation("b.long", route=("x", "y")), validation("a"), validation("c")]
    race = line_up(*lined, candidates=2)
    assert hold(race, **{"b.long": 4.0, "a": 2.0}) == (False, [["b.long", "a"]])
    assert find_ends(race)["c"][0] is Status.NOT_TRIED


def test_who_is_expected_to_be_faster_races_first_and_the_validations_keep_their_order(monkeypatch, tmp_path):
    monkeypatch.setenv("HONE_HOME", str(tmp_path / "home"))
    raced = []
    monkeypatch.setattr(Race, "run", lambda self: raced.extend(self.artifacts) or False)
    monkeypatch.setattr(Race, "__init__", note_order(raced, Race.__init__))
    given = Validations(
        validations=tuple(validation(name, route=(f"x.{name}",)) for name in ("slow", "fast", "unknown"))
    )
    forecast = Forecast(adaptors={"x.slow": Usual(speed=0.2), "x.fast": Usual(speed=3.0)})
    result = race(context=make_setting(), reference=None, forecast=forecast, validations=given)
    assert raced[0] == ["fast", "unknown", "slow"]
    assert [one.candidate.id for one in result.validations] == ["slow", "fast", "unknown"]


def note_order(raced, make):
    """Return a constructor that notes in which order it is given the validations."""

    def construct(self, validations, context):
        raced.append([one.candidate.id for one in validations])
        make(self, validations, context)

    return construct
