from __future__ import annotations

import json
import sys

import jsonschema
import pytest
from markdown_it import MarkdownIt
from sample import WINNER, make_evidence

from hone_runtime.values.judgement import GateOutcome, Judgement
from kedro_hone.report.evidence import dump_evidence, parse_evidence
from kedro_hone.report.rendering import render_markdown, render_page
from kedro_hone.report.schema import SCHEMA_FILE
from kedro_hone.report.wording import format_gate, format_judgement

NAN, EMPTY = float("nan"), "–"  # noqa: RUF001 - the dash of an empty cell
ROWS = (
    Judgement(
        name="speedup", candidate=WINNER, judgement=GateOutcome.HOLDS, limit=1.05, measured=4.58, low=4.2, high=4.9,
        unit="times", shape="batch64", reason="it is 4.58 times as fast",
    ),
    Judgement(name="drop", candidate=WINNER, judgement=GateOutcome.UNDECIDED, limit=0.01,
              measured=NAN, low=NAN, high=NAN),
    Judgement(name="size_mb", candidate="source", judgement=GateOutcome.FAILS, limit=1, measured=2.5, unit="MB",
              reason="a <b>"),
    Judgement(name="quality", candidate="nobody", judgement=GateOutcome.NOT_ASKED,
              reason="it does not pass another gate"),
)  # fmt: skip


@pytest.fixture
def evidence():
    return make_evidence(gates=ROWS)


def test_the_evidence_keeps_one_record_for_all_gates(evidence):
    text = dump_evidence(evidence)
    jsonschema.validate(json.loads(text, parse_constant=pytest.fail), json.loads(SCHEMA_FILE.read_text()))

    assert parse_evidence(text).gates == ROWS
    assert (ROWS[1].measured, ROWS[1].low, ROWS[1].high) == (None, None, None)


def test_the_table_has_one_row_for_each_judgement(evidence):
    rows = [format_judgement(row) for row in evidence.gates]

    assert [format_gate(row) for row in evidence.gates] == ["speedup, batch 64", "drop", "size_mb", "quality"]
    assert rows[0] == ("1.05 times", "4.58 times", "4.2 to 4.9", "holds")
    assert rows[1] == ("0.01", EMPTY, EMPTY, "undecided")
    assert rows[2][:2] == ("1 MB", "2.5 MB")
    assert "<code>nobody</code>" in render_page(evidence)


def test_an_interval_without_an_end_is_said_in_words():
    endless = ROWS[0].model_copy(update={"low": -sys.float_info.max, "high": sys.float_info.max})
    assert format_judgement(endless)[2] == "unbounded"


def test_an_interval_of_two_launches_is_said_in_words():
    wild = ROWS[0].model_copy(update={"low": 6.0e-59, "high": 3.1e62})
    assert format_judgement(wild)[2] == "too few measurements for an interval"


def test_page_and_comment_show_the_table_and_escape_it(evidence):
    page, comment = render_page(evidence), render_markdown(evidence)

    assert page.count('class="outcome outcome-failed">fails<') == 1
    assert "<code>speedup, batch 64</code>" in page
    assert "a &lt;b&gt;" in page
    assert "<summary>Gates</summary>" in comment
    html = MarkdownIt("gfm-like", {"linkify": False, "html": True}).render(comment)
    assert "size_mb" in html
    assert "<b>" not in html


@pytest.mark.parametrize(
    ("number", "unit", "text"), [(None, "ms", EMPTY), (0.5, "", "0.5"), (0.98, "f1_score", "0.98 f1")]
)
def test_a_measure_is_a_number_with_its_unit(number, unit, text):
    judgement = ROWS[0].model_copy(update={"limit": number, "measured": number, "unit": unit})
    assert format_judgement(judgement)[:2] == (text, text)
