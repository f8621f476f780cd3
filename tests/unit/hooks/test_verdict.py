"""What the program that started a run is told of its verdict."""

from __future__ import annotations

import io
from types import SimpleNamespace

import pytest
from kedro.io import DataCatalog, MemoryDataset
from kedro.pipeline import Node, Pipeline
from rich.console import Console

from hone_runtime.errors import ExitCode
from hone_runtime.values.decision import Verdict
from hone_runtime.values.measurement import Interval, Speedup
from kedro_hone.hooks import verdict as module
from kedro_hone.report import console
from kedro_hone.report.result_file import VARIABLE, read_result

REASONS = ("7 launches cannot show whether it is faster", "other processes took 51 % of its cores")


def make_pipeline(package):
    def make():
        return 1, 2

    make.__module__ = f"{package}.nodes.make"
    return Pipeline([Node(make, None, ["evidence", "publications"])])


def test_another_packages_evidence_is_no_verdict(tmp_path, monkeypatch):
    monkeypatch.setenv(VARIABLE, str(tmp_path / "result.json"))
    catalog = DataCatalog({"evidence": MemoryDataset("theirs"), "publications": MemoryDataset("theirs")})
    hooks = module.VerdictHooks(Console(file=io.StringIO()))
    hooks.before_pipeline_run(make_pipeline("shop"), catalog)
    hooks.after_pipeline_run(make_pipeline("shop"), catalog)
    assert hooks.exit_code == ExitCode.SUCCESS
    assert not (tmp_path / "result.json").exists()


def end_run(evidence, folder):
    made = {"evidence": evidence, "run": SimpleNamespace(folder=folder), "publications": ()}
    catalog = DataCatalog({name: MemoryDataset(value, copy_mode="assign") for name, value in made.items()})
    hooks = module.VerdictHooks(Console(file=io.StringIO()))
    hooks.after_pipeline_run(make_pipeline("kedro_hone"), catalog)
    return hooks


@pytest.mark.parametrize(
    ("verdict", "code", "message"),
    [
        (Verdict.PASS, ExitCode.SUCCESS, ""),
        (Verdict.KEEP, ExitCode.SUCCESS, f"{REASONS[0]}; {REASONS[1]}."),
        (Verdict.FAIL, ExitCode.FAIL, f"{REASONS[0]}; {REASONS[1]}."),
        (Verdict.INCONCLUSIVE, ExitCode.INCONCLUSIVE, f"{REASONS[0]}; {REASONS[1]}."),
    ],
)
def test_the_reasons_are_told_where_it_is_no_pass(tmp_path, monkeypatch, verdict, code, message):
    monkeypatch.setenv(VARIABLE, str(tmp_path / "result.json"))
    monkeypatch.setattr(console, "print_verdict", lambda *_, **__: None)
    evidence = SimpleNamespace(verdict=verdict, reasons=REASONS, winner=None, speedups=())
    hooks = end_run(evidence, tmp_path)
    assert hooks.exit_code == code
    assert read_result(tmp_path / "result.json").model_dump(include={"verdict", "message"}) == {
        "verdict": verdict.value,
        "message": message,
    }


@pytest.mark.parametrize(("winner", "speed"), [("fast", "5.7× faster at batch 1"), (None, "")])  # noqa: RUF001
def test_the_speed_up_is_that_of_a_winner(tmp_path, monkeypatch, winner, speed):
    monkeypatch.setenv(VARIABLE, str(tmp_path / "result.json"))
    monkeypatch.setattr(console, "print_verdict", lambda *_, **__: None)
    ratio = Interval(estimate=5.7, low=5.6, high=5.8)
    speedups = (Speedup(shape="batch1", ratio=ratio, noise_floor=1.0, launches=7),)
    verdict = Verdict.PASS if winner else Verdict.KEEP
    end_run(SimpleNamespace(verdict=verdict, reasons=(), winner=winner, speedups=speedups), tmp_path)
    assert read_result(tmp_path / "result.json").speed == speed
