"""What ``benchmarks/toolchains.py`` keeps of its models where one has no cells, and in which interpreters it runs."""

from __future__ import annotations

import argparse
import importlib.util
import json
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
import yaml

from kedro_hone.recipe.schema import read_recipe

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"


@pytest.fixture(scope="module")
def benchmark():
    """The module by another name than that of the tests' own toolchains."""
    spec = importlib.util.spec_from_file_location("benchmark_of_toolchains", BENCHMARKS / "toolchains.py")
    module = importlib.util.module_from_spec(spec)
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(BENCHMARKS))
        spec.loader.exec_module(module)
    return module


@pytest.fixture
def run(benchmark, tmp_path, monkeypatch, capsys):
    """Return a function that runs the command, and returns its exit code and what it printed."""

    def run(*arguments):
        given = ["--folder", str(tmp_path), "--results", str(tmp_path / "results.json"), "--toolchains", "onnxruntime"]
        monkeypatch.setattr(sys, "argv", ["toolchains.py", *given, *arguments])
        with pytest.raises(SystemExit) as ended:
            benchmark.main()
        return ended.value.code, capsys.readouterr().out

    return run


def leave_race(project, *, measured):
    """Write what a race leaves in which ONNX Runtime was measured, or was not."""
    candidate = {"id": "onnx.0", "route": ["onnxruntime.session"], "outcome": {"steps": []}}
    status = "measured" if measured else "failed"
    race = {
        "validations": [{"candidate": candidate, "status": "valid", "reason": ""}],
        "standings": [
            {"id": "onnx.0", "status": status, "reason": "no", "rounds": 10 * measured, "ratios": {"batch1": 2.0}}
        ],
        "other_load": None,
        "source_latency": [{"shape": "batch1", "p50_ms": 1.0}],
    }
    (project / "data/hone/work").mkdir(parents=True)
    (project / "data/hone/work/race.json").write_text(json.dumps(race))
    (project / "machine.json").write_text("{}")


def test_a_model_without_a_reference_costs_the_others_no_cells(run, tmp_path):
    leave_race(tmp_path / "cnn", measured=False)
    leave_race(tmp_path / "bert", measured=True)

    code, printed = run("--collect", "--models", "cnn", "bert")

    assert code == 1
    assert "cnn: onnx ▸ onnxruntime.session was not measured, and all are compared with it" in printed
    (cell,) = json.loads((tmp_path / "results.json").read_text())["models"]["bert"]["cells"]
    assert cell["times"] == {"batch1": 1.0}


def test_nothing_is_missing_where_all_have_cells(run, tmp_path):
    leave_race(tmp_path / "bert", measured=True)
    assert run("--collect", "--models", "bert")[0] == 0
    assert run("--collect", "--models", "bert", "cnn")[0] == 1


def test_interpreters_are_named_in_the_settings(benchmark, run, tmp_path, monkeypatch):
    (tmp_path / "bert" / "conf" / "local").mkdir(parents=True)
    (tmp_path / "bert" / "made").touch()
    told = []
    monkeypatch.setattr(benchmark, "subprocess", SimpleNamespace(run=lambda *_, **__: SimpleNamespace(returncode=0)))
    monkeypatch.setattr(benchmark, "describe_machine", lambda _, given: told.append(given.python) or {})

    run("--models", "bert", "--python", f"iree={sys.executable}", "--python", f"torch_tensorrt={sys.executable}")

    written = yaml.safe_load((tmp_path / "bert" / "conf" / "local" / "parameters.yml").read_text())["hone"]
    assert written["environments"] == {name: {"python": sys.executable} for name in ("iree", "torch_tensorrt")}
    assert read_recipe({"model": {"uri": "x"}, "environments": written["environments"]}).environments.keys() == {
        "iree",
        "torch_tensorrt",
    }
    assert told == [{"iree": Path(sys.executable), "torch_tensorrt": Path(sys.executable)}]


def test_a_toolchain_with_an_interpreter_takes_part(benchmark, tmp_path, monkeypatch):
    monkeypatch.setenv("HONE_HOME", str(tmp_path))
    found = [
        benchmark.list_toolchains(SimpleNamespace(build=False, python=python)) for python in ({}, {"iree": Path("x")})
    ]
    assert ["iree" in names for names in found] == [False, True]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("iree", "'' is no program"),
        ("iree=/nowhere/python", "'/nowhere/python' is no program"),
        (f"iree={__file__}", "is no program"),
        ("iree=~nobody-of-that-name/python", "is no program"),
        (f"iree=/{'x' * 5000}", "is no program"),
        ("ireee=x", "'ireee' is none"),
    ],
)
def test_an_interpreter_that_is_not_there_is_refused(benchmark, text, said):
    with pytest.raises(argparse.ArgumentTypeError, match=said):
        benchmark.read_interpreter(text)


def test_a_link_to_an_interpreter_is_kept(benchmark, tmp_path):
    (tmp_path / "python").symlink_to(sys.executable)
    assert benchmark.read_interpreter(f"iree={tmp_path}/x/../python") == ("iree", tmp_path / "python")


@pytest.mark.parametrize("name", ["raced.json", "race.json"])
def test_what_a_race_left_is_found_with_and_without_composites(benchmark, name, tmp_path):
    assert benchmark.find_race(tmp_path) is None
    work = tmp_path / "data" / "hone" / "work"
    work.mkdir(parents=True)
    (work / name).write_text("{}")
    assert benchmark.find_race(tmp_path) == work / name


def test_the_summary_has_the_fastest_that_keeps_its_quality(benchmark):
    cells = [
        {"toolchain": "b", "precision": "fp32", "times": {"one": 0.5}, "drop": 0.7},
        {"toolchain": "b", "precision": "fp32", "times": {"one": 0.9}, "drop": 0.0},
        {"toolchain": "a", "precision": "int8", "times": {"one": 0.25}, "drop": 0.3},
        {"toolchain": "b", "precision": "int8", "times": {"one": 2.0}},
        {"toolchain": "c", "precision": "fp32", "reason": "it needs a GPU"},
    ]
    table = benchmark.summarize({"net": {"shapes": {"one": {"batch": 1}}, "cells": cells}})
    assert table.splitlines() == [
        "| toolchain | precision | net, one |",
        "| --- | --- | --: |",
        "| a | lower | 0.25 (int8; drop 0.30) |",
        "| b | fp32 | 0.90 |",
        "| b | lower | 2.00 (int8) |",
    ]
