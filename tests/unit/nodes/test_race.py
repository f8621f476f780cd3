from __future__ import annotations

import random
from contextlib import ExitStack
from pathlib import Path

import pytest

from kedro_hone.comparing.launches import Entrant
from kedro_hone.comparing.setting import Setting
from kedro_hone.core.store.artifacts import Store
from kedro_hone.core.store.runs import RunFolder
from kedro_hone.core.values.artifact import Artifact
from kedro_hone.core.values.measurement import BUDGET, Status, Validation
from kedro_hone.core.values.outcome import Candidate, Refused
from kedro_hone.core.values.samples import Samples
from kedro_hone.nodes.race import Race
from kedro_hone.recipe.schema import read_recipe


def validation(name, digest, *, route=("toolchain.what",), status=Status.MEASURED, memory=None):
    outcome = Artifact(format="toy", digest=digest, inputs=(), outputs=())
    candidate = Candidate(id=name, route=route, outcome=outcome)
    return Validation(candidate=candidate, status=status, peak_memory_bytes=memory)


def line_up(*validations, hopeless=None, **keys):
    """Return a race before its start."""
    recipe = read_recipe({"model": {"uri": "models:/x/1"}, "race": keys})
    samples = Samples(digest="sha256:0", splits={}, shapes={}, program="", program_digest="")
    run = RunFolder(root=Path("runs"), run_id="one", project=Path())
    source = Artifact(format="toy", digest="sha256:1", inputs=(), outputs=())
    setting = Setting(source=source, samples=samples, recipe=recipe, store=Store(Path("store")), run=run)
    return Race(validations, setting, hopeless=hopeless or {})


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


def test_who_is_hopeless_does_not_race():
    race = line_up(validation("a", "sha256:1"), validation("b", "sha256:2"), hopeless={"b": "slow", "c": "gone"})
    assert race.rank()[1].slug == BUDGET
    assert find_ends(race) == {"a": (Status.MEASURED, ""), "b": (Status.NOT_TRIED, "slow")}


class Session:
    """Stands for a worker that holds some memory."""

    def __init__(self, mebibytes):
        self.mebibytes = mebibytes

    def memory_bytes(self):
        return self.mebibytes << 20


@pytest.mark.parametrize(("limit", "heat"), [(1400, ["a", "b"]), (1399, ["a"]), (100, ["a"])])
def test_a_heat_is_what_fits_next_to_the_memory_that_the_source_really_takes(limit, heat):
    race = line_up(*(validation(name, f"sha256:{name}", memory=300 << 20) for name in "abcd"), memory_mb=limit)
    race._running["source"] = Entrant(id="source", session=Session(800), bursts={}, stack=ExitStack())

    assert race._fill_heat() == heat
    assert race._waiting == [name for name in "abcd" if name not in heat]


def test_no_more_rounds_than_the_recipe_allows(tmp_path, monkeypatch):
    """A block that is not the last of a number of rounds is cut: 8 rounds in blocks of 5 are 5 and 3."""
    race = line_up(validation("a", "sha256:a"), validation("b", "sha256:b"), rounds=8, block=5)
    for name in ("source", "a", "b", "c", "d"):
        race._running[name] = Entrant(id=name, session=Session(1), bursts={}, stack=ExitStack())
    rounds = []
    monkeypatch.chdir(tmp_path)  # the run's events are written
    monkeypatch.setattr("kedro_hone.nodes.race.measure_round", lambda *_, **__: rounds.append(1))
    monkeypatch.setattr(race, "_drop_slow", lambda: None)
    race._run_heat(random.Random(0), budget=600.0)
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
