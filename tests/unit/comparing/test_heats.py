from __future__ import annotations

from kedro_hone.comparing.heats import select_racers
from kedro_hone.core.values.artifact import Artifact
from kedro_hone.core.values.measurement import Status, Validation
from kedro_hone.core.values.outcome import Candidate, Refused


def validation(name, digest, *, route=("toolchain.what",), status=Status.MEASURED):
    outcome = Artifact(format="toy", digest=digest, inputs=(), outputs=())
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
