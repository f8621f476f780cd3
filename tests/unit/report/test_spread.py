"""How much worse single rows are: in the evidence, on the page and in the comment."""

from __future__ import annotations

import json

import jsonschema
import pytest
from sample import make_evidence

from hone_runtime.values.measurement import Interval
from hone_runtime.values.spread import Spread
from kedro_hone.report.evidence import Evidence, dump_evidence, parse_evidence
from kedro_hone.report.rendering import render_markdown, render_page
from kedro_hone.report.schema import generate_schema
from kedro_hone.report.view import View

SPREAD = Spread(best=0.0, p5=0.001, median=0.0049, p95=0.0068, p99=0.0074, worst=0.0076)


def add_spreads(metric: str) -> tuple[Evidence, list[str]]:
    """Give two candidates a spread on the search split, and one of them another on the gate split."""
    evidence = make_evidence()
    better, worse = [one for one in evidence.candidates if one.route and one.quality][:2]

    def change(quality, estimate, **more):
        drop = Interval(estimate=estimate, low=estimate, high=estimate + 0.001)
        return quality.model_copy(update={"metric": metric, "drop": drop, "spread": SPREAD, **more})

    found = {
        better.id: better.model_copy(update={"quality": change(better.quality, 0.004)}),
        worse.id: worse.model_copy(update={"quality": change(worse.quality, 0.003)}),
    }
    gate = change(better.quality, 0.002, split="gate", id=better.id)
    candidates = tuple(found.get(one.id, one) for one in evidence.candidates)
    return evidence.model_copy(update={"candidates": candidates, "quality": (gate,)}), [better.id, worse.id]


def test_the_gate_split_goes_before_the_search_split_and_the_best_is_first():
    evidence, names = add_spreads("cosine_similarity")
    rows = [(candidate.id, quality.split, quality.drop.estimate) for candidate, quality in View(evidence).spreads]
    assert rows == [(names[0], "gate", 0.002), (names[1], "search", 0.003)]


def test_the_spread_is_in_the_evidence_and_its_schema():
    evidence, names = add_spreads("cosine_similarity")
    text = dump_evidence(evidence)
    jsonschema.validate(json.loads(text), json.loads(generate_schema()))
    assert parse_evidence(text) == evidence
    assert parse_evidence(text).find_candidate(names[0]).quality.spread == SPREAD


@pytest.mark.parametrize(
    ("metric", "unit", "cells"),
    [
        ("cosine_similarity", "in cosine similarity", "0.002 0.003 0 0.001 0.0049 0.0068 0.0074 0.0076"),
        ("argmax_agreement", "in points of argmax agreement", "0.2 0.3 0.0 0.1 0.49 0.68 0.74 0.76"),
    ],
)
def test_the_page_and_the_comment_show_it(metric, unit, cells):
    evidence, _ = add_spreads(metric)
    page, comment = render_page(evidence), render_markdown(evidence)
    for text in (page, comment):
        assert "Loss of quality, row by row" in text
        assert unit in text
    assert f"| gate | {cells.replace(' ', ' | ')} |" in comment
    row = page[page.index('id="spread"') :].partition("<tbody>")[2].partition("</tr>")[0]
    assert [part.partition(">")[2].partition("<")[0] for part in row.split('class="num"')[1:]] == cells.split()


def test_nothing_is_shown_where_rows_are_right_or_wrong():
    evidence = make_evidence()
    assert View(evidence).spreads == []
    for text in (render_page(evidence), render_markdown(evidence)):
        assert "row by row" not in text
