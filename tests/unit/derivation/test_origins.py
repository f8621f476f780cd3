"""Rows of derived splits in errors, as the rows of the user's own file."""

from __future__ import annotations

import pytest

from hone_runtime.errors import HoneError, combine
from kedro_hone.derivation.origins import Origin, name_origin

ORIGIN = Origin(file="ner.jsonl", rows={"search": (5, 17, 40), "gate": (2, 3)})


def fail(error, origin=ORIGIN):
    with pytest.raises(HoneError) as raised, name_origin(origin):
        raise error
    return raised.value


def make_error(split="search", why="row 1 has the tag 'X'"):
    return HoneError("labels-mismatch", f"They do not match ({split}: {split}.jsonl).", why=why, hint="Look at row 1.")


def test_a_row_is_that_of_the_file():
    error = fail(make_error())
    assert (error.what, error.why) == ("They do not match (ner.jsonl).", "ner.jsonl row 17 has the tag 'X'")
    assert error.hint == "Look at row 1."
    assert fail(make_error("gate")).why.startswith("ner.jsonl row 3 ")


def test_each_of_several_errors_has_the_rows_of_its_split():
    error = fail(combine([make_error(), make_error("gate", "row 0 is empty, and row 1"), make_error("gate", "no row")]))
    assert error.why.splitlines()[0].startswith("1. They do not match (ner.jsonl). ner.jsonl row 17 has")
    assert "2. They do not match (ner.jsonl). ner.jsonl row 2 is empty, and ner.jsonl row 3 " in error.why


def test_a_row_that_is_in_no_split_stays():
    assert fail(make_error(why="row 99 is odd")).why == "row 99 is odd"
    assert fail(make_error("calibration")).why == "row 1 has the tag 'X'"
    assert fail(HoneError("data-empty", "A.", why="row 1", hint="C.")).why == "row 1"


def test_splits_of_the_user_keep_their_names():
    error = make_error()
    assert fail(error, None) is error
