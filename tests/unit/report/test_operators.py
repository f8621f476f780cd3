"""The table of operators by precision, on the page and in the comment."""

from __future__ import annotations

import re

from sample import WINNER, make_evidence

from hone_runtime.values.decision import Verdict
from hone_runtime.values.operators import make_operators
from kedro_hone.report.operators import describe_operators, tabulate_operators
from kedro_hone.report.rendering import render_markdown, render_page

INT8 = {"int8": {"QLinearConv": 9, "QGemm": 2}, "fp32": {"Softmax": 1}, "other": {"QuantizeLinear": 1}}
FLOAT = {"fp32": {f"Kind{number}": 1 for number in range(12)}}


def make(source=None, *winners, verdict=Verdict.PASS):
    """Return evidence with the source's operators, and the winner's at batch 1 and 64."""
    shapes = ("batch1", "batch64")
    records = [make_operators("source", shape, source) for shape in shapes]
    records += [make_operators(WINNER, shape, found) for shape, found in zip(shapes, winners, strict=False)]
    return make_evidence(verdict, operators=tuple(records))


def read_section(page: str) -> str:
    """Return the text of the page's section about operators."""
    section = page.partition('<section id="operators"')[2].partition("</section>")[0]
    return " ".join(re.sub("<[^>]*>", " ", section).split())


def test_shapes_with_the_same_operators_share_a_row():
    table = tabulate_operators(make(FLOAT, INT8, INT8))
    assert table.precisions == ("int8", "fp32", "other")
    assert [(row.id, row.shapes) for row in table.rows] == [
        ("source", "batch 1, batch 64"),
        (WINNER, "batch 1, batch 64"),
    ]


def test_shapes_with_other_operators_have_their_own_rows():
    evidence = make(None, INT8, FLOAT)
    rows = tabulate_operators(evidence).rows
    assert [(row.shapes, row.found and row.found.counts) for row in rows] == [
        ("batch 1, batch 64", None),
        ("batch 1", {"int8": 11, "fp32": 1, "other": 1}),
        ("batch 64", {"fp32": 12}),
    ]
    assert describe_operators(evidence) == (
        "source: not known; winner at batch 1: 11 int8, 1 fp32, 1 other; winner at batch 64: 12 fp32"
    )


def test_without_any_count_there_is_no_table():
    for evidence in (make_evidence(), make(None, None, None)):
        assert tabulate_operators(evidence) is None
        assert describe_operators(evidence) == ""
        assert "Operators by precision" not in render_page(evidence)
        assert "operators by precision" not in render_markdown(evidence)


def test_the_page_has_the_counts_with_the_most_frequent_kinds():
    section = read_section(render_page(make(FLOAT, INT8, INT8)))
    assert "11 QLinearConv 9, QGemm 2" in section
    assert re.search(r"batch 1, batch 64 0 12 Kind0 1, Kind1 1, Kind10 1, Kind11 1, Kind2 1, … 0", section)


def test_the_page_says_what_is_not_known():
    section = read_section(render_page(make(None, INT8, INT8)))
    assert "source model source batch 1, batch 64 not known for this runtime" in section


def test_the_comment_has_one_line():
    text = render_markdown(make(FLOAT, INT8, INT8))
    assert "- operators by precision: source: 12 fp32; winner: 11 int8, 1 fp32, 1 other\n" in text


def test_names_of_operators_are_escaped():
    evidence = make({"fp32": {"<b>x": 1}}, INT8, INT8)
    assert "&lt;b&gt;x 1" in render_page(evidence)
