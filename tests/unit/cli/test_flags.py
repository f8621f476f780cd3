"""Keys of the recipe in errors become flags of ``kedro hone optimize``."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from hone_runtime.errors import HoneError
from kedro_hone.cli import flags
from kedro_hone.cli.flags import FLAGS, find_flag, translate, translate_keys
from kedro_hone.cli.optimize import optimize
from kedro_hone.recipe.schema import Recipe

ROOT = Path(__file__).parents[3]


def test_each_key_and_each_flag_exists():
    options = {option for parameter in optimize.params for option in parameter.opts} | {"SOURCE"}
    assert {flag.split()[0] for flag in FLAGS.values()} <= options
    for key in FLAGS:
        section, *rest = key.split(".")
        inner = Recipe.model_fields[section].annotation
        assert not rest or section == "gates" or rest[0] in inner.model_fields


@pytest.mark.parametrize(
    ("said", "expected"),
    [
        ("set hone.gates.drop above 0.02.", "set --max-drop above 0.02."),
        ("name the classes in order: program.options.classes", "name the classes in order: --classes A,B"),
        (
            "name it in the recipe: program.options.arrays: {features: x}",
            "name it: --input features=x",
        ),
        ("Or add trust: [pickle] to the recipe.", "Or add --trust pickle."),
        ("It runs code, and the recipe does not trust it.", "It runs code, and no --trust allows it."),
        ("Mend hone.model.module: path.py:Class", "Mend --module: path.py:Class"),
        ("Set hone.model.task to fill-mask if", "Set it by --set model.task=fill-mask if"),
        ("Name another metric in hone.program.metric.", "Name another metric in --set program.metric=…."),
        (
            "the recipe's only batch, hone.shapes: {batch4: {batch: 4}}; or",
            "the recipe's only batch, --shape batch=4; or",
        ),
        ("its folder: `program.options.tokenizer`.", "its folder: --option tokenizer=…."),
        ("or set hone.publish.enabled to false.", "or leave --publish out."),
        ("Check the path in conf/base/catalog.yml: relative", "Check the path of --data: relative"),
    ],
)
def test_a_key_is_replaced_by_its_flag(said, expected):
    assert translate(said) == expected


@pytest.mark.parametrize(
    "said",
    [
        "Name a folder with model.onnx, model.pt2 or an MLmodel.",
        "Use kedro_hone.load, or python -m kedro_hone hone explain gate-unprovable.",
        "Its config.json has model_type; data/hone.shapes/x and net.py:Net.",
    ],
)
def test_names_that_are_no_keys_are_not_changed(said):
    assert translate(said) == said


def test_a_key_without_a_flag_of_its_own_is_set():
    assert find_flag("gates.size_mb") == "--set gates.size_mb=…"
    assert find_flag("program.options.scale") == "--option scale=…"


def test_errors_in_a_block_are_translated_and_their_cause_is_kept():
    cause = HoneError(
        "program-unknown", "There is no program 'x'.", why="It is not built in.", hint="Did you mean 'y'?"
    )
    with pytest.raises(HoneError) as caught, translate_keys():
        raise RuntimeError("a node failed") from cause
    assert caught.value.slug == "program-unknown"
    assert caught.value.hint == "Did you mean 'y'? Name it by --task NAME, or leave that out."
    assert caught.value.__cause__.__cause__ is cause


def test_other_exceptions_are_not_changed():
    with pytest.raises(ValueError, match="a bug"), translate_keys():
        raise ValueError("a bug")


def list_messages():
    """The texts in the sources, each f-string as one, with an x for what is filled in."""
    for folder in ("src", "nodes", "adaptors", "pipelines"):
        for path in (ROOT / folder).rglob("*.py"):
            if path.name == "flags.py" or path.is_relative_to(ROOT / "src/kedro_hone/scaffold/starter"):
                continue
            for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
                if isinstance(node, ast.JoinedStr):
                    yield "".join(str(part.value) if isinstance(part, ast.Constant) else "x" for part in node.values)
                elif isinstance(node, ast.Constant) and isinstance(node.value, str):
                    yield node.value


def test_each_phrase_is_one_of_a_message():
    """A message that is worded anew would otherwise name files and keys that a person of `optimize` does not have."""
    messages = list(dict.fromkeys(list_messages()))
    unused = [pattern.pattern for pattern, _ in flags._PHRASES if not any(map(pattern.search, messages))]
    assert unused == []
