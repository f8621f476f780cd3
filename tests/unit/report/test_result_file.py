from __future__ import annotations

import json

import pytest

from kedro_hone.report.result_file import RunResult, note_result, read_result


def test_what_is_noted_stays_until_it_changes(tmp_path, monkeypatch):
    path = tmp_path / "result.json"
    monkeypatch.setenv("HONE_RESULT", str(path))
    note_result(folder="runs/1")
    note_result(verdict="PASS", published="models:/digits/2")
    assert read_result(path) == RunResult(folder="runs/1", verdict="PASS", published="models:/digits/2")
    assert json.loads(path.read_text())["slug"] == ""
    assert list(tmp_path.iterdir()) == [path]


def test_without_the_variable_nothing_is_written(tmp_path, monkeypatch):
    monkeypatch.delenv("HONE_RESULT", raising=False)
    monkeypatch.chdir(tmp_path)
    note_result(folder="runs/1")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("text", ["", "{", "[]", '{"colour": "red"}', '{"verdict": 3}'])
def test_a_file_that_says_nothing_of_a_run(tmp_path, text):
    (tmp_path / "result.json").write_text(text)
    assert read_result(tmp_path / "result.json") == RunResult()
    assert read_result(tmp_path / "missing.json") == RunResult()
    assert read_result(tmp_path) == RunResult()


def test_a_field_of_a_newer_version_loses_no_publication(tmp_path):
    (tmp_path / "result.json").write_text('{"published": "models:/digits/2", "colour": "red"}')
    assert read_result(tmp_path / "result.json") == RunResult(published="models:/digits/2")
