from __future__ import annotations

import pytest

from kedro_hone.report.progress_file import NAME, Progress, note_progress, read_progress
from kedro_hone.report.result_file import VARIABLE


def test_it_is_next_to_the_result_and_leaves_that_alone(tmp_path, monkeypatch):
    monkeypatch.setenv(VARIABLE, str(tmp_path / "result.json"))
    (tmp_path / "result.json").write_text('{"published": "models:/digits/2"}')
    progress = Progress(title="Race", clock="3 s", share=0.5, best="best so far a")
    note_progress(progress)
    assert read_progress(tmp_path) == progress
    assert (tmp_path / "result.json").read_text() == '{"published": "models:/digits/2"}'


def test_without_the_variable_nothing_is_written(tmp_path, monkeypatch):
    monkeypatch.delenv(VARIABLE, raising=False)
    monkeypatch.chdir(tmp_path)
    note_progress(Progress(title="Race"))
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("text", ["", "[]", '{"share": 7}', '{"title": 3}'])
def test_a_file_that_has_no_progress(tmp_path, text):
    (tmp_path / NAME).write_text(text)
    assert read_progress(tmp_path) is None
    assert read_progress(tmp_path / "none") is None
