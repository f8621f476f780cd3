"""Slices of the gate split (gates.slices) in a whole run: judged, in the evidence, and refused before it starts."""

from __future__ import annotations

import pytest
from small_project import FAST

pytestmark = pytest.mark.nightly


def test_a_winner_holds_the_limit_in_every_slice(project):
    project.write_splits(gate=6000)
    project.track()
    project.set(gates={"slices": {"by": "label", "drop": 0.9}})
    project.run()
    (quality,) = project.evidence["quality"]
    assert sum(one["n"] for one in quality["slices"]) == quality["n"]
    assert len(quality["slices"]) > 1
    rows = {row["name"]: row for row in project.evidence["gates"] if row["candidate"] == FAST}
    assert (rows["slices"]["judgement"], rows["slices"]["limit"]) == ("holds", 0.9)
    assert "Slices of the gate split" in (project.runs[-1] / "report.html").read_text()


@pytest.mark.parametrize(
    ("slices", "slug", "said"),
    [
        ({"by": "label", "drop": 0.001}, "gate-unprovable", "of the slice label = "),
        ({"by": "nothing", "drop": 0.9}, "recipe-invalid", "no column 'nothing'"),
    ],
)
def test_slices_that_cannot_be_judged_end_the_run_before_anything_is_built(project, slices, slug, said):
    project.set(gates={"slices": slices})
    done = project.run(code=3)
    assert slug in done.output
    assert said in done.output
    assert not any("session" in line or "fast" in line for line in project.read_diary())
