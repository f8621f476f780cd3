from __future__ import annotations

from kedro_hone.report.breaks import break_after_marks


def test_a_name_may_be_broken_after_its_marks_only():
    assert break_after_marks("onnx.a_b") == "onnx.<wbr>a_<wbr>b"
    assert break_after_marks("models:/a-b/1", "/-:") == "models:<wbr>/<wbr>a-<wbr>b/<wbr>1"
    assert break_after_marks("") == ""


def test_it_is_escaped():
    assert break_after_marks("<b>.&") == "&lt;b&gt;.<wbr>&amp;"


def test_a_secret_is_hidden_before_it_is_broken(monkeypatch):
    monkeypatch.setenv("SOME_TOKEN", "abc_def.ghi_jkl")
    assert "abc_def.ghi_jkl" not in break_after_marks("x abc_def.ghi_jkl y").replace("<wbr>", "")
