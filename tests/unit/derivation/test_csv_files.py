"""Files of delimited text as people have them: what is read, what is noted, and what is refused."""

from __future__ import annotations

import json

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from hone_runtime.errors import HoneError
from hone_runtime.interfaces.texts import is_missing
from kedro_hone.derivation.csv_files import read_csv


@pytest.fixture
def read(tmp_path):
    def read(text, name="a.csv", **options):
        path = tmp_path / name
        path.write_text(text, encoding="utf-8", newline="")
        return read_csv(path, **options)

    return read


@pytest.fixture
def refuse(read):
    def refuse(text, **options):
        with pytest.raises(HoneError) as caught:
            read(text, **options)
        return caught.value

    return refuse


def list_values(table):
    return {name: list(column) for name, column in table.columns.items()}


@pytest.mark.parametrize(("delimiter", "word"), [(";", "semicolons"), ("\t", "tabs"), ("|", "vertical bars")])
def test_any_delimiter_is_found(read, delimiter, word):
    table = read(f'a{delimiter}b\n1{delimiter}"x, y"\n2{delimiter}z\n')
    assert list_values(table) == {"a": [1, 2], "b": ["x, y", "z"]}
    assert table.notes == (f"a.csv has values between {word}; its splits have commas",)


def test_commas_in_text_are_no_delimiters(read):
    table = read("text;label\na, b, c;1\nd, e;0\n")
    assert list_values(table) == {"text": ["a, b, c", "d, e"], "label": [1, 0]}
    assert list_values(read('text\n"a, b"\nc\n')) == {"text": ["a, b", "c"]}


def test_lines_of_windows_quotes_and_lines_within_text_are_read(read):
    table = read('a,b\r\n1,"x\r\ny ""z"""\r\n\r\n2,w\r\n')
    assert list_values(table) == {"a": [1, 2], "b": ['x\r\ny "z"', "w"]}


def test_the_line_of_excel_that_names_the_delimiter_is_no_header(read):
    assert list_values(read("sep=;\na;b\n1;2\n")) == {"a": [1], "b": [2]}


def test_long_text_is_read(read):
    assert list_values(read(f"a,b\n{'x' * 200_000},1\n"))["a"] == ["x" * 200_000]


def test_an_index_without_a_name_is_left_out(read):
    said = "the first column has no name and another value in each row: it is an index, left out"
    for text in (",a\n0,x\n1,x\n", "a\n0,x\n1,x\n", "Unnamed: 0,a\n0,x\n1,x\n"):
        table = read(text)
        assert list_values(table) == {"a": ["x", "x"]}
        assert table.notes == (said,)


def test_an_index_that_the_model_takes_stays(read):
    assert read(",a\n0,x\n1,x\n", needs=["Unnamed: 0", "a"]).names == ("Unnamed: 0", "a")


def test_a_column_without_a_name_that_is_no_index_stays(read):
    assert list_values(read(",a\n5,x\n5,y\n")) == {"Unnamed: 0": [5, 5], "a": ["x", "y"]}
    assert read("a,b,\n1,2,\n3,4,\n").names == ("a", "b")


def test_two_columns_of_one_name_are_both_kept(read):
    table = read("a,a,b\n1,2,3\n")
    assert list_values(table) == {"a": [1], "a.1": [2], "b": [3]}
    assert table.notes == ("two columns have the name 'a'; the second is now 'a.1'",)


def test_dates_are_noted(read):
    table = read("day,x\n2024-01-31,1\n2024-02-01,2\n")
    assert table.notes == ("'day' contains dates, such as '2024-01-31', which the model gets as text",)
    assert read("day;x\n31.12.2024;1\n").notes[1].startswith("'day' contains dates")


def test_a_line_of_another_length_is_refused(refuse):
    error = refuse("a,b\n1,2\n3\n")
    assert (error.slug, error.why) == ("data-unreadable", "Line 3 has 1 values, and the header has 2 between commas.")
    assert "quotes" in error.hint
    assert "Line 2 has 3 values" in refuse("a,b\n1,x,y\n2,z\n").why


def test_a_file_without_a_header_is_refused(refuse, read):
    assert "no names but only numbers, such as '5.1'" in refuse("5.1,3.5,0\n4.9,3.0,1\n").why
    assert read("0,1\n4.9,3.0\n").names == ("0", "1")


def test_a_file_without_rows_is_empty(refuse):
    assert refuse("a,b\n").slug == "data-empty"
    assert refuse("").slug == "data-empty"


def test_cells_are_written_unchanged(read, tmp_path):
    text = 'id,x,note\n007,1.10,"a, ""b"""\n010,1e-3,NA\n011,+5, x\n'
    made = read(text).content.write({"gate": [0, 2], "search": [1, 0]}, tmp_path)
    assert made["gate"].read_text() == 'id,x,note\n007,1.10,"a, ""b"""\n011,+5, x\n'
    assert made["search"].name == "search.csv"


def test_text_that_looks_like_numbers_in_one_split_stays_text(read, tmp_path, worker):
    table = read("code,x,ok\n007,1.10,True\nA1,NA,false\n010,.5,\nB2,2,True\n,1,True\n")
    made = table.content.write({"gate": [1, 3], "search": [0, 2, 4]}, tmp_path)
    assert [json.loads(line) for line in made["search"].read_text().splitlines()] == [
        {"code": "007", "x": 1.1, "ok": True},
        {"code": "010", "x": 0.5, "ok": None},
        {"code": None, "x": 1, "ok": True},
    ]
    assert '"x": 1.10,' in made["search"].read_text()
    assert worker.formats.read_arrays(made["search"])["code"].tolist() == ["007", "010", None]


@pytest.mark.parametrize(
    ("column", "kind"),
    [
        (["1", "2.5", "", "NA"], "number"),
        (["-.5", "1.", "+3", "1e5", " 7 ", "inf"], "number"),
        (["007", "12"], "number"),
        (["True", "FALSE", "NA"], "truth"),
        (["True", "1"], "text"),
        (["yes", "no"], "text"),
        (["1_000"], "text"),
        (["1,5"], "text"),
        (["٣"], "text"),
        (["2024-01-31"], "text"),
        (["1", " "], "text"),
        (["", "null"], "number"),
    ],
)
def test_a_column_has_the_kind_of_its_values(read, column, kind):
    assert read("a,b\n" + "".join(f'"{cell}",x\n' for cell in column)).kinds == {"a": kind, "b": "text"}


@given(st.lists(st.text("0123456789.eE+- Nainf", max_size=6), min_size=1, max_size=4))
@example(["+0E 0"])
@example(["+0E 0", "1", "x"])
@example(["NA", "x"])
@example(["99999999999999999999999", "1"])
@example(["18446744073709551615", "-1"])
@example(["9007199254740993", ""])
@settings(max_examples=100, deadline=None)
def test_any_cells_are_what_the_programs_read_from_each_split(tmp_path_factory, worker, column):
    folder = tmp_path_factory.mktemp("cells")
    (folder / "a.csv").write_text("a,b\n" + "".join(f'"{cell}",x\n' for cell in column), encoding="utf-8")
    table = read_csv(folder / "a.csv")
    splits = {"all": range(len(column)), "first": [0]}
    made = table.content.write(splits, folder)
    for split, rows in splits.items():
        found = worker.formats.read_arrays(made[split])["a"].tolist()
        for value, row in zip(found, rows, strict=True):
            wanted = table.columns["a"][row]
            assert (is_missing(value) and is_missing(wanted)) or value == wanted
            assert is_missing(value) or isinstance(value, str) == (table.kinds["a"] == "text")
