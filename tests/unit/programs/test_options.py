"""The options that a program declares, read without importing it."""

from __future__ import annotations

import pytest

from kedro_hone.programs import _fit_hint, find_program, list_options

HINT = "Check that the data belong to this model. Check the program's options `output` and `classes`."


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ('OPTIONS = {"scale": 1, "bias": None}', {"scale", "bias"}),
        ('from typing import Any\nOPTIONS: dict[str, Any] = {"scale": 1}', {"scale"}),
        ("OPTIONS = {}", set()),
        ('OPTIONS = {**TEXT, "scale": 1}', None),
        ("OPTIONS = dict(scale=1)", None),
        ("OPTIONS: dict", None),
        ("METRIC = 1", None),
        ("def (", None),
    ],
)
def test_a_literal_is_read_and_nothing_is_executed(tmp_path, text, names):
    path = tmp_path / "own.py"
    path.write_text(f"{text}\n# raise SystemExit\n")
    assert list_options(find_program(str(path), project=tmp_path)) == names


def test_a_hint_names_only_options_that_the_program_has(tmp_path):
    for name in ("tabular-classification", "token-classification"):
        assert _fit_hint(HINT, find_program(name, project=tmp_path).path) == HINT
    for name in ("fidelity", "question-answering"):
        assert _fit_hint(HINT, find_program(name, project=tmp_path).path) == "Check that the data belong to this model."
