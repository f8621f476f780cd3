"""The arguments of ``kedro hone optimize``, parsed."""

from __future__ import annotations

from pathlib import Path

import pytest

from hone_runtime.errors import HoneError
from kedro_hone.derivation.request import (
    BUDGETS,
    WHOLE,
    make_absolute,
    read_budget,
    read_data,
    read_pairs,
    read_shape,
    read_share,
    read_values,
    refuse_secrets,
)
from kedro_hone.recipe.schema import read_recipe

HERE = Path("/somewhere")


@pytest.mark.parametrize("place", ["models:/churn/3", "hf://owner/name@main", "s3://bucket/rows.csv", "runs:/1/model"])
def test_a_uri_is_the_same_in_every_folder(place):
    assert make_absolute(place, HERE) == place


def test_a_path_counts_from_where_the_command_was_typed():
    assert make_absolute("net.onnx", HERE) == "/somewhere/net.onnx"
    assert make_absolute("../net.onnx", HERE) == "/net.onnx"


def test_one_file_is_for_all_splits():
    assert read_data(["rows=1.csv"], HERE) == {WHOLE: "/somewhere/rows=1.csv"}


def test_named_splits_are_used_as_they_are():
    given = [f"{split}={split}.npz" for split in ("calibration", "search", "gate", "training")]
    assert read_data(given, HERE)["training"] == "/somewhere/training.npz"


@pytest.mark.parametrize(
    ("given", "what"),
    [
        (["a.csv", "b.csv"], "a file without a split twice"),
        (["gate=a.csv", "gate=b.csv"], "the split gate twice"),
        (["gate=a.csv", "b.csv"], "named splits and a file without a name"),
        (["gate=a.csv", "search=b.csv"], "lacks the split calibration"),
    ],
)
def test_data_that_cannot_be_meant_are_refused(given, what):
    with pytest.raises(HoneError, match=what) as raised:
        read_data(given, HERE)
    assert raised.value.slug == "option-invalid"


def test_a_shape_without_a_batch_is_one_row():
    assert read_shape("length=128") == {"batch": 1, "length": 128}
    assert read_shape("batch=64,length=128") == {"batch": 64, "length": 128}


@pytest.mark.parametrize("text", ["batch=0", "batch=-1", "batch=x", "64", "batch=", "batch=1.5"])
def test_a_shape_has_whole_sizes_from_one(text):
    with pytest.raises(HoneError):
        read_shape(text)


@pytest.mark.parametrize(("text", "share"), [("1%", 0.01), ("0.5 %", 0.005), ("0.02", 0.02)])
def test_a_share_is_a_number_or_in_percent(text, share):
    assert read_share(text, "--max-drop") == pytest.approx(share)


@pytest.mark.parametrize("text", ["1", "0", "100%", "-1%", "nan", "much", ""])
def test_a_share_is_above_0_and_below_1(text):
    with pytest.raises(HoneError, match="max-drop"):
        read_share(text, "--max-drop")


def test_values_are_yaml():
    assert read_values(["scale=0.5", "classes=[a, b]"], "--option") == {"scale": 0.5, "classes": ["a", "b"]}
    with pytest.raises(HoneError, match="cannot be read"):
        read_values(["classes=[a"], "--option")


def test_a_pair_has_a_name_and_a_value():
    for text in ("scale", "=1", "scale="):
        with pytest.raises(HoneError, match="no name or no value"):
            read_pairs([text], "--option")


@pytest.mark.parametrize(
    ("text", "budget"), [("quick", "quick"), ("90", 90), ("90s", 90), ("10m", 600), ("1.5 h", 5400), ("5min", 300)]
)
def test_a_budget_is_a_time_or_a_name(text, budget):
    assert read_budget(text) == budget


@pytest.mark.parametrize("text", ["quik", "0", "-5", "10 days", "m", ""])
def test_another_budget_is_refused(text):
    with pytest.raises(HoneError, match="--budget is") as raised:
        read_budget(text)
    assert raised.value.slug == "option-invalid"
    assert ("'quick'" in raised.value.hint) == (text == "quik")


def test_the_names_of_budgets_are_those_of_the_recipe():
    for name in BUDGETS:
        assert read_recipe({"model": {"uri": "m"}, "budget": name}).budget == name


@pytest.mark.parametrize("value", [{"publish.uri": "https://user:pass-word@host"}, ["http://h/?token=pass-word"]])
def test_a_secret_in_any_value_is_refused(value):
    refuse_secrets({"signature": "serving_default", "x": 1, "y": None}, "--set")
    with pytest.raises(HoneError, match="--set has a URL with a password") as raised:
        refuse_secrets({"deep": value}, "--set")
    assert "pass-word" not in str(raised.value)


def test_a_url_with_a_password_is_refused():
    with pytest.raises(HoneError, match="a URL with a password") as raised:
        read_data(["gate=https://user:pass-word@host/rows.csv"], HERE)
    assert "pass-word" not in str(raised.value)
