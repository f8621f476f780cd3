from __future__ import annotations

import pytest

from kedro_hone.comparing.heats import Field, _fill_heat, select_racers
from kedro_hone.core.measuring.launches import Entrant
from kedro_hone.core.values.artifact import Artifact
from kedro_hone.core.values.measurement import Status, Validation
from kedro_hone.core.values.outcome import Candidate, Refused


def validation(name, digest, *, route=("toolchain.what",), status=Status.MEASURED, memory=None):
    outcome = Artifact(format="toy", digest=digest, inputs=(), outputs=())
    return Validation(
        candidate=Candidate(id=name, route=route, outcome=outcome), status=status, peak_memory_bytes=memory
    )


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


class Session:
    """Stands for a worker that holds some memory."""

    def __init__(self, mebibytes):
        self.mebibytes = mebibytes

    def memory_bytes(self):
        return self.mebibytes << 20


@pytest.mark.parametrize(("limit", "heat"), [(1400, ["a", "b"]), (1399, ["a"]), (100, ["a"])])
def test_a_heat_is_what_fits_next_to_the_memory_that_the_source_really_takes(limit, heat):
    racers = {name: validation(name, f"sha256:{name}", memory=300 << 20) for name in "abcd"}
    state = Field(racers=racers, waiting=[*racers])
    state.running["source"] = Entrant(id="source", session=Session(800), calls={})

    assert _fill_heat(state, limit) == heat
    assert state.waiting == [name for name in "abcd" if name not in heat]
