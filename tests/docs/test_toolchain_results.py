"""What is published of each toolchain on three models: a time, or a reason that says what it is."""

from __future__ import annotations

import json
import math
import re
from pathlib import Path

import pytest

from kedro_hone.core.workers.inside.loading import load_file

ROOT = Path(__file__).parents[2]
FILES = sorted((ROOT / "docs" / "reference").glob("toolchain-results*.json"))
MODELS = {(path.stem, name): model for path in FILES for name, model in json.loads(path.read_text())["models"].items()}
CELLS = [(name, cell) for name, model in MODELS.items() for cell in model["cells"]]
NOTHING = re.compile(r"(\S+: )?(\w*(Error|Exception)|crashed with \w+|ended with exit code \d+ and no result)?:?\s*")


def test_each_cell_has_a_time_or_says_why_not():
    assert len(FILES) == 4
    little = [(name, cell["route"], cell["reason"]) for name, cell in CELLS if "times" not in cell]
    assert [each for each in little if NOTHING.fullmatch(each[2])] == []


def test_times_are_over_those_of_one_candidate_in_fp32():
    for name, model in MODELS.items():
        references = [cell for cell in model["cells"] if cell.get("reference")]
        assert [cell["toolchain"] for cell in references] == ["onnxruntime"], name
        assert references[0]["precision"] == "fp32"
        assert {*references[0]["times"].values()} == {1.0}
        assert all(
            math.isfinite(time) and time > 0 for cell in model["cells"] for time in cell.get("times", {}).values()
        )


def test_it_is_known_on_what_they_were_measured():
    for model in MODELS.values():
        assert model["cpu"]
        assert model["instructions"]
        assert model["date"]
        assert model["versions"]["onnxruntime"]


@pytest.mark.parametrize("name", ["raced.json", "race.json"])
def test_what_a_race_left_is_found_with_and_without_composites(name, tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))
    toolchains = load_file("benchmark_toolchains", str(ROOT / "benchmarks" / "toolchains.py"), parts=False)
    assert toolchains.find_race(tmp_path) is None
    work = tmp_path / "data" / "hone" / "work"
    work.mkdir(parents=True)
    (work / name).write_text("{}")
    assert toolchains.find_race(tmp_path) == work / name


def test_what_all_routes_through_a_refused_step_have_in_common_is_told_once():
    results = load_file("generated_results", str(ROOT / "docs" / "generated" / "results.py"), parts=False)
    cells = [
        {"route": ["onnx", "a.int8", "b.run"], "precision": "int8", "reason": "a.int8: too few rows"},
        {"route": ["onnx", "a.int8"], "precision": "int8", "reason": "a.int8: too few rows"},
        {"route": ["onnx", "b.run"], "precision": "fp32", "reason": "b.run: does not take Conv"},
        {"route": ["onnx", "c.int4", "b.run"], "precision": "int4", "reason": "b.run: does not take Conv"},
        {"route": ["onnx", "d.run"], "precision": "fp32", "reason": "no adaptor is named"},
    ]
    ends = [["onnx", "a.int8"], ["onnx", "b.run"], ["onnx", "d.run"], ["onnx", "c.int4", "b.run"]]
    folded = results._fold(cells)
    assert [[*cell["route"]] for cell in folded] == ends
    assert [cell["precision"] for cell in folded] == ["int8", "fp32", "fp32", "int4"]


def test_a_step_that_ends_no_route_has_the_precision_that_its_routes_have_in_common():
    results = load_file("generated_results", str(ROOT / "docs" / "generated" / "results.py"), parts=False)

    def fold(*precisions):
        cells = [
            {"route": ["onnx", "a.tune", f"{number}.run"], "precision": each, "reason": "a.tune: it is late"}
            for number, each in enumerate(precisions)
        ]
        (cell,) = results._fold(cells)
        return cell["precision"]

    assert fold("int8", "int8") == "int8"
    assert fold("fp32", "int8") == ""
