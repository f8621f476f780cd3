from __future__ import annotations

import keyword

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kedro_hone.serving.client.identifiers import clean_identifier, make_class_name, make_identifiers


@pytest.mark.parametrize(
    ("name", "identifier"),
    [
        ("x", "x"),
        ("input:0", "input_0"),
        ("class", "class_"),
        ("0", "tensor_0"),
        ("", "tensor"),
        ("__init__", "init"),
        ("naïve", "naive"),
        ("日本", "tensor"),
        ('x"""\nimport os', "x_import_os"),
        ("self", "self_"),
    ],
)
def test_a_name_becomes_a_valid_identifier(name: str, identifier: str) -> None:
    assert clean_identifier(name, reserved={"self"}) == identifier


def test_a_name_that_is_valid_keeps_it_before_one_that_is_cleaned() -> None:
    names = make_identifiers(["input:0", "input_0", "input.0"], reserved=())
    assert names == {"input:0": "input_0_2", "input_0": "input_0", "input.0": "input_0_3"}


def test_names_that_differ_in_case_or_underscores_alone_get_numbers_for_protobufs_json() -> None:
    assert make_identifiers(["aB", "a_b", "ab"], reserved=()) == {"aB": "aB", "a_b": "a_b_2", "ab": "ab_3"}


@given(st.lists(st.text(max_size=6), unique=True, max_size=8))
def test_any_names_become_valid_and_distinct(names: list[str]) -> None:
    found = make_identifiers(names, reserved={"self"})
    assert list(found) == names
    assert all(one.isidentifier() and one.isascii() and not one.startswith("_") for one in found.values())
    assert not any(keyword.iskeyword(one) or one == "self" for one in found.values())
    assert len({one.replace("_", "").lower() for one in found.values()}) == len(names)


def test_a_class_has_the_models_name() -> None:
    assert make_class_name("text_net") == "TextNet"
