"""Code in the documentation compiles; recipes in it are recipes; examples run."""

from __future__ import annotations

import ast
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from hone_runtime.contract.catalogue import forget_registrations, register
from kedro_hone.recipe.plan import make_plan
from kedro_hone.recipe.schema import read_recipe

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
EXAMPLE = ROOT / "docs" / "examples" / "fp16"
_BLOCK = re.compile(r"^```(\w+)[^\n]*\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def list_blocks(language: str):
    for page in PAGES:
        blocks = [text for found, text in _BLOCK.findall(page.read_text()) if found == language]
        for number, text in enumerate(blocks, start=1):
            yield pytest.param(text, id=f"{page.relative_to(ROOT)}:{number}")


@pytest.mark.parametrize("text", [*list_blocks("python")])
def test_python_compiles(text):
    ast.parse(text)


@pytest.mark.parametrize("text", [*list_blocks("yaml")])
def test_yaml_is_yaml_and_a_recipe_is_a_recipe(text):
    for document in yaml.safe_load_all(text):
        if isinstance(document, dict) and "hone" in document and ": {enabled" not in text:
            read_recipe({"model": {"uri": "models:/digits/1"}, **document["hone"]})


@pytest.fixture
def example(monkeypatch):
    monkeypatch.syspath_prepend(str(EXAMPLE))
    import adaptor

    yield adaptor
    forget_registrations()
    del sys.modules["adaptor"]


def test_the_example_adaptor_opens_routes(example):
    before = {step.namespace for step in make_plan(read_recipe({"model": {"uri": "models:/digits/1"}})).routes.ends}
    register(*example.ADAPTORS)
    recipe = {"model": {"uri": "models:/digits/1"}, "adaptors": {"fp16.weights": {"options": {"smallest": 1024}}}}
    after = {step.namespace for step in make_plan(read_recipe(recipe)).routes.ends}

    assert "onnx.fp16_weights.onnxruntime_session" in after - before


@pytest.mark.toolchain
def test_the_example_adaptor_passes_the_suite():
    done = subprocess.run(
        [sys.executable, "-m", "kedro_hone", "hone", "adaptor", "test", "test_fp16.py"],
        cwd=EXAMPLE,
        env={**os.environ, "PYTHONPATH": str(ROOT / "src"), "DO_NOT_TRACK": "1", "PYTHONDONTWRITEBYTECODE": "1"},
        capture_output=True,
        text=True,
        check=False,
    )

    assert done.returncode == 0, done.stdout + done.stderr
    assert "14 passed" in done.stdout
