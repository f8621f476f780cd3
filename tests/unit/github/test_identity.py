"""What tells the steps of a pull request apart."""

from __future__ import annotations

import pytest

from kedro_hone.github.context import read_context
from kedro_hone.github.identity import name_check
from kedro_hone.github.inputs import Inputs
from kedro_hone.github.reporting import report


@pytest.mark.parametrize(
    ("given", "leg", "name"),
    [
        ({}, "", "kedro-hone"),
        ({"comment": "false", "fail_on": "never"}, "", "kedro-hone"),
        ({}, "gpu, 3.11", "kedro-hone (gpu, 3.11)"),
        ({"model": "models:/digits"}, "gpu", "kedro-hone (models:/digits, gpu)"),
        (
            {"project": "a", "params": "hone.budget=60\n\nhone.threads=1 "},
            "",
            "kedro-hone (a, hone.budget=60 hone.threads=1)",
        ),
        ({"name": "nightly", "params": "hone.budget=60"}, "", "kedro-hone (nightly)"),
        ({"name": "nightly"}, "gpu", "kedro-hone (nightly, gpu)"),
    ],
)
def test_a_check_run_is_named_after_what_tells_its_step_apart(job, given, leg, name):
    job.set(HONE_LEG=leg)

    assert name_check(Inputs(**given), read_context()) == name


def test_long_names_stay_apart(job):
    long = Inputs(params="hone.budget=60 " * 100)
    first = name_check(long, read_context())
    job.set(HONE_ID="ba9876543210")

    assert first != name_check(long, read_context())
    assert len(first) < 150


def test_two_legs_of_a_matrix_have_two_comments_and_two_checks(job):
    job.write_run()
    for step, leg in (("0123456789ab", "cpu"), ("ba9876543210", "gpu"), ("0123456789ab", "cpu")):
        job.set(HONE_ID=step, HONE_LEG=leg)
        report()

    assert len(job.github.comments) == 2
    assert [check["name"] for check in job.github.checks] == [f"kedro-hone ({leg})" for leg in ("cpu", "gpu", "cpu")]
