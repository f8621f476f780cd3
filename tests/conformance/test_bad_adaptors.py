"""The suite itself under test: good adaptors pass it, and each bad one is caught by the check made for it."""

from __future__ import annotations

import sys
from functools import partial
from pathlib import Path

import pytest

from kedro_hone.core.host import read_host
from kedro_hone.testing import AdaptorSuite
from kedro_hone.testing.bad import BAD
from kedro_hone.testing.checks import CHECKS, run_checks
from kedro_hone.testing.toy import adaptor as toy
from kedro_hone.testing.toy.model import make_model
from kedro_hone.testing.trial import Case, Trial, make_arrays, make_shapes


def make_trial(adaptor, folder, **options):
    artifact = make_model(folder / "source")
    return Trial(
        Case(
            adaptor=adaptor,
            artifact=artifact,
            options=adaptor.options(**options),
            python=Path(sys.executable),
            host=read_host(),
            folder=folder / "trial",
            shapes=make_shapes(artifact.inputs),
            make_feeds=partial(make_arrays, artifact.inputs),
            limits=adaptor.toolchain.limits,
        )
    )


@pytest.mark.parametrize("bad", BAD, ids=lambda bad: bad.adaptor.name)
def test_each_bad_adaptor_is_caught_by_its_check_and_no_other(bad, tmp_path):
    failures = run_checks(make_trial(bad.adaptor, tmp_path))
    assert set(failures) == {bad.caught_by}, failures
    assert failures[bad.caught_by].failure == bad.failure, failures


@pytest.mark.parametrize(
    ("adaptor", "options"),
    [(toy.COMPRESS, {}), (toy.COMPILE, {}), (toy.COMPILE, {"static": True})],
    ids=["compress", "compile", "static"],
)
def test_good_adaptors_pass(adaptor, options, tmp_path):
    assert run_checks(make_trial(adaptor, tmp_path, **options)) == {}


def test_damage_is_prevented_not_only_noticed(tmp_path):
    trials = {bad.adaptor.name: bad.adaptor for bad in BAD}
    trial = make_trial(trials["bad.writes-into-input"], tmp_path / "a")
    before = (trial.case.artifact.folder / "weights.npz").read_bytes()
    run_checks(trial)
    landlock = not trial.first.outcome.reason.startswith("changed its input")
    assert (trial.case.artifact.folder / "weights.npz").read_bytes() == before or not landlock
    trial = make_trial(trials["bad.writes-outside"], tmp_path / "b")
    run_checks(trial)
    assert (tmp_path / "b" / "outside.txt").exists() != landlock


def test_every_check_has_a_test_in_the_suite():
    numbered = [name.split("_", 2)[2].replace("_", "-") for name in vars(AdaptorSuite) if name.startswith("test_")]
    assert numbered == list(CHECKS)


class TestToyCompile(AdaptorSuite):
    """The way in which a stranger adopts the suite."""

    @pytest.fixture
    def adaptor(self):
        return toy.COMPILE

    @pytest.fixture
    def artifact(self, tmp_path):
        return make_model(tmp_path / "source")

    @pytest.fixture
    def python(self):
        return Path(sys.executable)
