from __future__ import annotations

from types import SimpleNamespace

import pytest

from kedro_hone.recipe.schema import read_recipe
from kedro_hone.runner import start as module
from kedro_hone.runner.start import check_start


@pytest.mark.parametrize(
    ("toolchains", "prepared"),
    [
        (["onnxruntime"], ["calibration", "gate", "search"]),
        (["pytorch", "compress"], ["calibration", "gate", "search", "training"]),
    ],
)
def test_all_splits_of_the_run_are_prepared(monkeypatch, tmp_path, toolchains, prepared):
    """A dry run accepted a training split with rows of the gate split."""
    found = []
    monkeypatch.setattr(module, "find_root", lambda: tmp_path)
    monkeypatch.setattr(module, "check_names", lambda *_: None)
    monkeypatch.setattr(module, "load_split", lambda _, name, **__: name)
    monkeypatch.setattr(module, "prepare", lambda *_, **files: found.extend(sorted(files)))
    monkeypatch.setattr(module, "find_problems", lambda **_: [])
    monkeypatch.setattr(module, "collect_errors", _call)
    for name in ("check_batch", "check_ranges"):
        monkeypatch.setattr(module, name, lambda *_: None)
    recipe = read_recipe({"model": {"uri": "models:/x/1"}, "toolchains": toolchains})
    source = SimpleNamespace(inputs=())
    _, files = check_start(recipe, SimpleNamespace(load=lambda _: None), source=source)
    assert found == sorted(files) == prepared


def _call(checks):
    for check in checks:
        check()
    return []
