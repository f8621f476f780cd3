"""Limits for other metrics (gates.drops) in a whole run: judged, in the evidence and in the reports."""

from __future__ import annotations

import pytest
from small_project import FAST

pytestmark = pytest.mark.nightly

PROGRAM = '''
"""Fidelity, and how many rows are near the source's at all."""

import numpy as np
from hone_programs.fidelity import OPTIONS, HIGHER_IS_BETTER, METRIC, NEEDS_TARGETS, decode, metric, prepare, score
from hone_programs.shared.ratios import RowMetric


def near(predictions, targets, options):
    return np.all([(np.abs(predictions[name] - targets[name]) < 0.5).all(axis=1) for name in targets], axis=0) * 1.0


METRICS = {"near_rows": RowMetric(score=near)}
'''


@pytest.fixture
def own(project):
    (project.root / "programs").mkdir()
    (project.root / "programs" / "mine.py").write_text(PROGRAM)
    project.set(program={"name": "programs/mine.py"}, gates={"drops": {"near_rows": 0.1}})
    return project


def test_a_winner_holds_the_limits_of_other_metrics_too(own):
    own.run()
    evidence = own.evidence
    (quality,) = evidence["quality"]
    (other,) = quality["others"]
    assert (quality["id"], other["metric"], other["kind"], other["limit"]) == (
        FAST,
        "near_rows",
        "proportion",
        0.1,
    )
    rows = {(row["name"], row["unit"]): row["judgement"] for row in evidence["gates"] if row["candidate"] == FAST}
    assert rows["drops", "near_rows"] == "holds"
    assert "near_rows" in (own.runs[-1] / "report.html").read_text()


def test_a_metric_that_is_not_there_is_named_before_the_pull(own):
    own.set(gates={"drops": {"near_row": 0.1}})
    done = own.run(code=3)
    assert "metric-unknown" in done.output
    assert "near_rows" in done.output
