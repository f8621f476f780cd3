"""Keys of the recipe in errors become flags of ``kedro hone optimize``."""

from __future__ import annotations

import io
import json
import logging
import shlex

import pytest
import yaml
from rich.console import Console

from hone_runtime.errors import HoneError
from kedro_hone.cli.optimize import optimize
from kedro_hone.hooks.flags import FLAGS, choose_words, find_flag, translate, translate_keys
from kedro_hone.hooks.lines import LineHandler
from kedro_hone.recipe.schema import Recipe
from kedro_hone.report.snippets import START


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
        ("name the classes in order: hone.program.options.classes", "name the classes in order: --classes A,B"),
        ("name it by `hone.program.options.arrays: {features: x}`.", "name it by --input features=x."),
        ("name it by `hone.program.options.arrays: {text: …}`", "name it by --input text=…"),
        ("Or add `hone.trust: [pickle]`.", "Or add --trust pickle."),
        ("(needs `hone.trust: [pickle, remote-code]`)", "(needs --trust pickle --trust remote-code)"),
        ("It runs code, and hone.trust does not allow it.", "It runs code, and --trust does not allow it."),
        ("Mend hone.model.module: path.py:Class", "Mend --module: path.py:Class"),
        (
            "hone.adaptors.compress.prune-channels.options.ratios: Extra inputs are not permitted",
            "--set adaptors.compress.prune-channels.options.ratios=…: Extra inputs are not permitted",
        ),
        ("Add `hone.model.task: fill-mask` if", "Add --set model.task=fill-mask if"),
        (
            "Name it: `hone.model.inputs: [{name: x, shape: [batch, 4]}]`.",
            "Name it: --set model.inputs='[{name: x, shape: [batch, 4]}]'.",
        ),
        ("Name another metric in hone.program.metric.", "Name another metric in --set program.metric=…."),
        (
            "the only batch, by `hone.shapes: {batch4: {batch: 4, length: 8}}`; or",
            "the only batch, by --shape batch=4,length=8; or",
        ),
        ("its folder: hone.program.options.tokenizer.", "its folder: --option tokenizer=…."),
        ("its folder: `hone.program.options.tokenizer`.", "its folder: --option tokenizer=…."),
        ("or add `hone.publish.enabled: false`.", "or add --no-publish."),
        ("set `hone.gates.drop: 0.02`.", "set --max-drop 0.02."),
        ("name it by `hone.program.options.arrays: {a}: {}`", "name it by --input NAME=COLUMN"),
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


def test_lines_of_optimize_name_flags_and_others_keys(monkeypatch):
    text = "raise hone.budget for more, or `hone.budget: thorough`; (hone.confirm.seconds), hone.gates.other_load"
    assert choose_words()(text) == text
    monkeypatch.setenv(START, "/here")
    flags = "raise --budget for more, or --budget thorough; (--set confirm.seconds=…), --set gates.other_load=…"
    assert choose_words()(text) == flags
    console = Console(file=io.StringIO())
    handler = LineHandler(console=console)
    handler.emit(logging.LogRecord("kedro_hone", logging.INFO, "", 1, "not tried %s", ("raise hone.budget",), None))
    assert console.file.getvalue().endswith("not tried raise --budget\n")


@pytest.mark.parametrize("name", ["credit card", "$(touch x)", "a;b", "it's"])
def test_a_name_from_the_data_is_one_word_of_a_shell(name):
    text = translate(f"Name it: `hone.program.options.positive: {json.dumps(name)}`.")
    words = shlex.split(text.removeprefix("Name it: ").removesuffix("."))
    assert words[0] == "--option"
    assert yaml.safe_load(words[1].removeprefix("positive=")) == name
