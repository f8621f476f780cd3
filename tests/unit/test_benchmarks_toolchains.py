"""What ``benchmarks/toolchains.py`` keeps of its models where one has no cells."""

from __future__ import annotations

import importlib.util
import json
import sys
from pathlib import Path

import pytest

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
