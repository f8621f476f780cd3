from __future__ import annotations

from kedro_hone.comparing.timings import keep_timings, read_timings
from kedro_hone.core.measuring.rounds import Timings
from kedro_hone.core.store.artifacts import Store
from kedro_hone.core.values.artifact import Artifact
from kedro_hone.core.values.measurement import Status, Validation
from kedro_hone.core.values.outcome import Candidate, Refused
from kedro_hone.nodes.race import select_racers, summarize_latency


def validation(name, digest, *, route=("toolchain.what",), status=Status.MEASURED):
    outcome = Artifact(path="/x", format="toy", digest=digest, inputs=(), outputs=())
    return Validation(candidate=Candidate(id=name, route=route, outcome=outcome), status=status)


def test_twins_race_once_by_the_shorter_route():
    racers, twins = select_racers(
        [validation("b.long", "sha256:1", route=("x", "y")), validation("a", "sha256:1"), validation("c", "sha256:2")]
    )

    assert [racer.candidate.id for racer in racers] == ["a", "c"]
    assert twins == {"b.long": "a"}


def test_only_what_is_valid_races():
    refused = Validation(
        candidate=Candidate(id="r", route=(), outcome=Refused(by="x", reason="no")), status=Status.REFUSED
    )
    racers, _ = select_racers([validation("bad", "sha256:1", status=Status.DROPPED), refused])

    assert racers == []


def test_percentiles_only_where_there_are_samples_enough():
    timings = Timings()
    timings.add("a", "b1", [1_000_000] * 70)
    timings.add("b", "b1", [2_000_000] * 10)

    (many,) = summarize_latency(timings, "a", ["b1"])
    (few,) = summarize_latency(timings, "b", ["b1"])

    assert (many.p50_ms, many.p90_ms, many.p99_ms) == (1.0, 1.0, None)
    assert (few.p50_ms, few.p90_ms) == (2.0, None)


def test_raw_timings_are_kept_and_read_again(tmp_path):
    store, timings = Store(tmp_path), Timings()
    timings.add("a", "b1", [1, 2, 3])
    timings.add("a", "b1", [4, 5])
    key = keep_timings(store, "race", timings)

    assert keep_timings(store, "race", timings) == key
    known = read_timings(store, key)
    assert {name: array.tolist() for name, array in known.items()} == {
        "race/a/b1": [1, 2, 3, 4, 5],
        "race/a/b1/calls": [3, 2],
    }
    assert read_timings(store, keep_timings(store, "confirm", Timings())) == {}
    assert read_timings(store, "sha256:0") is None
