"""The suite itself under test: good adaptors pass it, and each bad one is caught by the check made for it."""

from __future__ import annotations

import importlib
import json
import sys
import time
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import SimpleNamespace

import pytest
from pydantic import BaseModel, ConfigDict
from toolchains.bad import BAD
from toolchains.toy import adaptor as toy
from toolchains.toy.model import make_model

from hone_runtime.contract.catalogue import read_catalogue
from hone_runtime.contract.hardware import read_host
from hone_runtime.values.artifact import Stage
from hone_runtime.values.outcome import FailureClass, Refused
from kedro_hone.testing import AdaptorSuite, checks
from kedro_hone.testing.checks import CHECKS
from kedro_hone.testing.trial import CheckFailed, NotApplicable, Trial, make_arrays, make_shapes


def make_trial(adaptor, folder, **options):
    artifact = make_model(folder / "source")
    return Trial(
        adaptor=adaptor,
        artifact=artifact,
        files=folder / "source",
        options=adaptor.options(**options),
        python=Path(sys.executable),
        host=read_host(),
        folder=folder / "trial",
        shapes=make_shapes(artifact.inputs),
        make_feeds=partial(make_arrays, artifact.inputs),
        limits=adaptor.toolchain.limits,
    )


def run_checks(trial):
    """Run all checks, and return the failed ones by name."""
    failures = {}
    for name, check in CHECKS.items():
        try:
            check(trial)
        except NotApplicable:
            continue
        except CheckFailed as failed:
            failures[name] = failed
    return failures


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


def test_what_is_compiled_for_a_gpu_is_loaded_on_it(tmp_path):
    trial = make_trial(replace(toy.COMPILE, device="cuda:0"), tmp_path)
    assert trial.outputs.load_failure is None
    jobs = {name: json.loads((trial.folder / name / "job.json").read_text()) for name in ("run", "first/step")}
    assert [job["input"]["device"] for job in jobs.values()] == ["cuda:0", "cpu"]


def test_damage_is_prevented_not_only_noticed(tmp_path):
    trials = {bad.adaptor.name: bad.adaptor for bad in BAD}
    trial = make_trial(trials["bad.writes-into-input"], tmp_path / "a")
    before = (trial.files / "weights.npz").read_bytes()
    run_checks(trial)
    landlock = not trial.first.outcome.reason.startswith("changed its input")
    assert (trial.files / "weights.npz").read_bytes() == before or not landlock
    trial = make_trial(trials["bad.writes-outside"], tmp_path / "b")
    run_checks(trial)
    assert (tmp_path / "b" / "outside.txt").exists() != landlock


def test_every_check_is_a_test_of_the_suite_and_says_what_it_checks():
    functions = [name for name in vars(checks) if name.startswith("check_")]
    (mark,) = AdaptorSuite.test_contract.pytestmark
    assert [f"check_{name.replace('-', '_')}" for name in mark.args[1]] == functions
    assert all(check.__doc__ for check in CHECKS.values())


class TestToyCompile(AdaptorSuite):
    """The way in which a stranger adopts the suite."""

    @pytest.fixture
    def adaptor(self):
        return toy.COMPILE

    @pytest.fixture
    def artifact(self, tmp_path):
        return make_model(tmp_path)

    @pytest.fixture
    def python(self):
        return Path(sys.executable)


class LooseOptions(BaseModel):
    known: int = 1


class UnfrozenOptions(BaseModel):
    model_config = ConfigDict(extra="forbid")


def raise_for_odd(artifact, options, host):
    assert artifact.inputs[0].shape


def refuse_at_random(artifact, options, host):
    return Refused(by="x", reason=str(time.perf_counter_ns()))


def refuse_without_reason(artifact, options, host):
    return Refused(by="x", reason=" ")


@pytest.mark.parametrize(
    ("check", "changes"),
    [
        ("description", {"summary": "Faster"}),
        ("description", {"version": 0}),
        ("description", {"produces": "unheard-of", "stage": Stage.COMPRESS}),
        ("description", {"toolchain": replace(toy.TOOLCHAIN, folder=Path("/nowhere"))}),
        ("options", {"options": LooseOptions}),
        ("options", {"options": UnfrozenOptions}),
        ("refusal", {"can_take": raise_for_odd}),
        ("refusal", {"can_take": refuse_without_reason}),
        ("can-take", {"can_take": refuse_at_random}),
    ],
    ids=lambda value: value if isinstance(value, str) else "-".join(value),
)
def test_bad_descriptions_are_caught(check, changes, tmp_path):
    trial = make_trial(replace(toy.COMPILE, **changes), tmp_path)
    with pytest.raises(CheckFailed):
        CHECKS[check](trial)


def test_a_description_that_imports_a_toolchain_is_caught(tmp_path, monkeypatch):
    (tmp_path / "heavy_adaptor.py").write_text(
        "import numpy\nfrom dataclasses import replace\nfrom toolchains.toy.adaptor import COMPILE\n"
        "ADAPTORS = (replace(COMPILE, name='toy.heavy'),)\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    module = importlib.import_module("heavy_adaptor")
    with pytest.raises(CheckFailed, match="imports numpy"):
        CHECKS["imports"](make_trial(module.ADAPTORS[0], tmp_path))
    with pytest.raises(NotApplicable):
        CHECKS["imports"](make_trial(replace(toy.COMPILE, name="toy.nowhere"), tmp_path / "other"))


def test_modules_that_have_every_attribute_list_no_adaptors(tmp_path, monkeypatch):
    class Anything:
        def __getattr__(self, name):
            return object()

    monkeypatch.setitem(sys.modules, "torch.any_operators", Anything())  # such as torch.classes, once torch is imported
    CHECKS["imports"](make_trial(toy.COMPILE, tmp_path))


def test_an_adaptor_that_is_written_down_and_not_registered_is_caught(tmp_path, monkeypatch):
    (tmp_path / "capabilities.yml").write_text("versions: [{version: '1', adaptors: {toy.compil: {}}}]")
    adaptor = replace(toy.COMPILE, toolchain=replace(toy.TOOLCHAIN, folder=tmp_path))
    monkeypatch.setattr(checks, "read_catalogue", lambda: SimpleNamespace(adaptors={adaptor.name: adaptor}))
    with pytest.raises(CheckFailed, match=r"toy\.compil: unknown key, did you mean 'toy\.compile'"):
        CHECKS["name"](make_trial(adaptor, tmp_path))


def test_usual_figures_that_cannot_be_read_are_caught(tmp_path, monkeypatch):
    row = "{version: '1', adaptors: {toy.compile: {usual: {convolution: {AVX2: {sped: 1}}}}}}"
    (tmp_path / "capabilities.yml").write_text(f"versions: [{row}]")
    adaptor = replace(toy.COMPILE, toolchain=replace(toy.TOOLCHAIN, folder=tmp_path))
    monkeypatch.setattr(checks, "read_catalogue", lambda: SimpleNamespace(adaptors={adaptor.name: adaptor}))
    with pytest.raises(CheckFailed, match=r"convolution\.AVX2\.sped"):
        CHECKS["name"](make_trial(adaptor, tmp_path))


def test_a_name_that_is_taken_is_caught(tmp_path):
    name = min(read_catalogue().adaptors)
    toolchain = replace(toy.TOOLCHAIN, name=name.partition(".")[0])
    with pytest.raises(CheckFailed, match="is taken"):
        CHECKS["name"](make_trial(replace(toy.COMPILE, name=name, toolchain=toolchain), tmp_path))


@pytest.mark.parametrize(
    ("check", "session", "failure"),
    [
        ("loads", "raise RuntimeError('corrupt')", FailureClass.LOAD),
        ("runs", "return types.SimpleNamespace(run=lambda feeds: {'y': feeds['x'][[1], :3]})", FailureClass.CRASH),
        ("shapes", "return types.SimpleNamespace(run=lambda feeds: {'z': feeds['x'][:, :3]})", FailureClass.BAD_OUTPUT),
    ],
)
def test_results_that_do_not_run_are_caught(check, session, failure, tmp_path):
    folder = tmp_path / "toolchain"
    (folder / "worker").mkdir(parents=True)
    (folder / "worker" / "__init__.py").write_text(
        "import shutil, types\n"
        "def transform(job): shutil.copytree(job['input']['path'], job['output'], dirs_exist_ok=True)\n"
        f"def load(job): {session}\n"
    )
    for name in ("requirements.in", "requirements.lock"):
        (folder / name).write_text("numpy\n")
    failures = run_checks(make_trial(replace(toy.COMPILE, toolchain=replace(toy.TOOLCHAIN, folder=folder)), tmp_path))
    assert set(failures) == {check}
    assert failures[check].failure is failure
