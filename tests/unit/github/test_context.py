"""The outputs of a step, as GitHub's runner reads them."""

from __future__ import annotations

import pytest

from kedro_hone.github.context import write_output


@pytest.mark.parametrize("value", ["", "models:/50% off/3", "100%25", "a\nb<<c\nd", "verdict<<EOF\nPASS\nEOF"])
def test_a_value_arrives_as_it_is(job, value):
    write_output("winner", value)
    write_output("verdict", "FAIL")

    assert job.outputs == {"winner": value, "verdict": "FAIL"}


def test_no_value_can_foresee_its_end(job):
    write_output("winner", "x")
    write_output("winner", "x")

    first, second = (line for line in (job.workspace / "output").read_text().splitlines() if "<<" in line)
    assert first != second
