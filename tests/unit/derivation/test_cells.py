"""Cells are numbers, truth values, text or missing exactly where pandas reads them so."""

from __future__ import annotations

import io

import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pandas._libs.parsers import STR_NA_VALUES

from kedro_hone.derivation import cells


def test_the_missing_cells_are_those_of_pandas():
    assert cells.MISSING == STR_NA_VALUES


@pytest.mark.parametrize(
    ("column", "kind"),
    [
        (["1", "2.5", "", "NA"], "number"),
        (["-.5", "1.", "+3", "1e5", " 7 ", "inf"], "number"),
        (["007", "12"], "number"),
        (["True", "FALSE", ""], "truth"),
        (["True", "1"], "text"),
        (["yes", "no"], "text"),
        (["1_000"], "text"),
        (["1,5"], "text"),
        (["٣"], "text"),
        (["2024-01-31"], "text"),
        (["1", " "], "text"),
        (["", "null"], None),
    ],
)
def test_a_column_has_the_kind_that_pandas_reads(column, kind):
    assert cells.find_kind(column) == kind
    assert read_kind(column) == (kind or "number")


@given(st.lists(st.text("0123456789.eE+- Nainf", max_size=6), min_size=1, max_size=4))
@settings(max_examples=300, deadline=None)
def test_any_cells_have_the_kind_that_pandas_reads(column):
    assert (cells.find_kind(column) or "number") == read_kind(column)


def read_kind(column):
    quoted = "".join(f'"{cell}",0\n' for cell in column)
    read = pd.read_csv(io.StringIO(f"a,b\n{quoted}"), low_memory=False)["a"]
    known = read.dropna()
    if read.dtype == bool or (len(known) and all(isinstance(value, bool) for value in known)):
        return "truth"
    return "number" if read.dtype.kind in "iuf" else "text"
