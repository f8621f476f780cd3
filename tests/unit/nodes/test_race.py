from __future__ import annotations

from kedro_hone.core.measurement import Status, Validation
from kedro_hone.core.rounds import Timings
from kedro_hone.core.types import Artifact, Candidate, Refused
from kedro_hone.nodes.race import save_samples, select_racers, summarize_latency


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


def test_samples_of_race_and_confirmation_share_a_file(tmp_path):
    import numpy as np

    timings = Timings()
    timings.add("a", "b1", [1, 2, 3])
    timings.add("a", "b1", [4, 5])
    path = tmp_path / "samples.npz"
    save_samples(path, "race", timings)
    save_samples(path, "confirm", timings)

    with np.load(path) as archive:
        assert set(archive.files) == {f"{p}/a/b1{c}" for p in ("race", "confirm") for c in ("", "/calls")}
        assert archive["race/a/b1"].tolist() == [1, 2, 3, 4, 5]
        assert archive["race/a/b1/calls"].tolist() == [3, 2]
