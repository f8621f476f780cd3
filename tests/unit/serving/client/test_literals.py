from __future__ import annotations

import ast
import json
import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kedro_hone.serving.client.literals import WIDTH, join_parts, quote, quote_sizes, show, show_shape

NASTY = ("x", "", "a'b", 'a"b', "a'\"b", "\\", "\n", "größe", "\U0001f600", '"""', "'''", "\x00", "{0}", "\u2028")


@given(st.text())
def test_a_literal_is_the_text_in_one_line_of_ascii(text: str) -> None:
    literal = quote(text)
    assert ast.literal_eval(literal) == text
    assert literal.isascii()
    assert literal.isprintable()


@pytest.mark.parametrize("text", NASTY)
def test_a_literal_is_what_the_formatter_would_write(text: str) -> None:
    command = [sys.executable, "-m", "ruff", "format", "--isolated", "-"]
    line = f"x = {quote(text)}\n"
    assert subprocess.run(command, input=line, capture_output=True, text=True, check=True).stdout == line


@pytest.mark.parametrize("shape", [(), (3,), ("batch", 3), ("n" * 130,), tuple(range(60))])
def test_a_tuple_of_sizes_is_one_value_in_lines_that_fit(shape: tuple[int | str, ...]) -> None:
    text = quote_sizes(shape, indent=8, before="shape=")
    assert ast.literal_eval(text.removeprefix("shape=").removesuffix(",")) == shape
    assert all(len(line) <= WIDTH for line in text.splitlines() if "nnn" not in line)


def test_parts_that_do_not_fit_have_a_line_each() -> None:
    assert join_parts(["a", "b"], indent=4, before="f(", after=")") == "f(a, b)"
    long = join_parts(["a" * 60, "b" * 60], indent=4, before="f(", after=")")
    assert long.splitlines() == ["f(", f"        {'a' * 60},", f"        {'b' * 60},", "    )"]


@pytest.mark.parametrize("name", NASTY)
def test_a_shown_name_ends_no_comment_and_no_cell(name: str) -> None:
    shown = show(name)
    assert (json.loads(shown) if shown.startswith('"') else shown) == name
    assert not set(shown.strip('"')) & set("\n\r|`\"'<>*[]{}")


def test_a_shown_shape_is_not_long() -> None:
    assert show_shape(("batch", 64)) == "(batch, 64)"
    assert show_shape(()) == "()"
    assert len(show_shape(tuple(range(100)))) <= 62
