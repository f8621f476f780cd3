"""The page about source formats is true: its example is taken, by the page's own words."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from kedro_hone.sources.catalogue import forget_registrations, read_sources, register
from kedro_hone.sources.detection import read_flavor
from kedro_hone.sources.source_format import SourceFormat

PAGE = (Path(__file__).parents[3] / "docs" / "how-to" / "add-a-source-format.md").read_text()
EXAMPLE, _, CHECK = re.findall(r"^```python[^\n]*\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)


@pytest.fixture
def _registered():
    forget_registrations()
    names = {"__name__": "optimum_folder"}
    exec(compile(EXAMPLE, "optimum_folder.py", "exec"), names)  # noqa: S102 - text of our own documentation
    register(names["SOURCE_FORMAT"])
    yield
    forget_registrations()


@pytest.mark.usefixtures("_registered")
def test_the_example_takes_its_folders(tmp_path, monkeypatch):
    home = tmp_path / "models" / "minilm" / "onnx"
    home.mkdir(parents=True)
    for path in (home / "model.onnx", home / "model.onnx_data", home.parent / "config.json"):
        path.write_bytes(b"{}")
    monkeypatch.chdir(tmp_path)
    exec(compile(CHECK, "check.py", "exec"), {})  # noqa: S102 - text of our own documentation
    flavor = read_flavor(home.parent, trust=frozenset())
    assert flavor.files == (("onnx/model.onnx", "model.onnx"), ("onnx/model.onnx_data", "model.onnx_data"))


def test_every_attribute_is_explained():
    told = set(re.findall(r"`(\w+)`", PAGE))
    assert set(SourceFormat.__dataclass_fields__) - told == {"name"}
    shown = {name: source.order for name, (source, _) in read_sources()[0].items() if source.order in {30, 40, 90}}
    assert all(f"{name} ({order})" in PAGE for name, order in shown.items())
