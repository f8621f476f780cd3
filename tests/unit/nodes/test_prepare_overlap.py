"""What is said of splits that share rows."""

from __future__ import annotations

from kedro_hone.nodes import prepare


def test_rows_of_few_different_inputs_are_split_by_these():
    told = {"splits": ["calibration", "search"], "count": 6, "example_rows": [0, 3]}
    few = prepare._explain_overlap(**told, different=6, rows=700)
    assert "700 rows have only 6 different inputs" in few.why
    assert "Split by these" in few.hint
    assert "different" not in prepare._explain_overlap(**told).why
