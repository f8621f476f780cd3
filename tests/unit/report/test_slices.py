"""The slices of the gate split: in the evidence, on the page and in the comment."""

from __future__ import annotations

import json
import sys

import jsonschema
from sample import make_evidence

from hone_runtime.values.measurement import Interval, SliceQuality
from kedro_hone.report.evidence import dump_evidence, parse_evidence
from kedro_hone.report.rendering import render_markdown, render_page
from kedro_hone.report.schema import generate_schema
from kedro_hone.report.slices import tabulate_slices


def make_slice(name, high, **changes):
    drop = Interval(estimate=0.0, low=-high, high=high)
    return SliceQuality(**{"name": name, "n": 1200, "source": 0.9, "candidate": 0.88, "drop": drop, **changes})


def add_slices(*slices):
    evidence = make_evidence()
    recipe = {
        **evidence.recipe,
        "gates": {**(evidence.recipe.get("gates") or {}), "slices": {"by": "site", "drop": 0.03}},
    }
    first, *rest = evidence.quality
    return evidence.model_copy(
        update={"recipe": recipe, "quality": (first.model_copy(update={"slices": slices}), *rest)}
    )


def test_they_are_in_the_evidence_and_its_schema():
    evidence = add_slices(make_slice("a", 0.01), make_slice("b", 0.02))
    text = dump_evidence(evidence)
    jsonschema.validate(json.loads(text), json.loads(generate_schema()))
    assert parse_evidence(text).quality[0].slices == evidence.quality[0].slices


def test_the_worst_is_first_on_the_page_and_in_the_comment():
    end = sys.float_info.max
    unknown = make_slice("c", end, source=None, candidate=None, reason="The metric is nan.")
    evidence = add_slices(make_slice("a", 0.01), make_slice("b|<b>", 0.02), unknown)
    page, comment = render_page(evidence), render_markdown(evidence)
    assert [row[0] for row in tabulate_slices(evidence).rows] == ["c", "b|<b>", "a"]
    section = page[page.index('id="slices"') :]
    assert section.index("b|&lt;b&gt;") < section.index('<th scope="row">a<')
    assert "not known" in section
    assert "| worst slice, site = c, 1,200 rows | - | - | not known (limit 3.0 points) |" in comment
    assert "Slices of the gate split" in comment
    assert "| a | 1,200 | 90.00 % | 88.00 % | 0.0 | 1.0 |" in comment


def test_many_are_counted():
    table = tabulate_slices(add_slices(*(make_slice(f"s{at}", at / 1000) for at in range(60))))
    assert (len(table.rows), table.left_out, table.rows[0][0]) == (50, 10, "s59")


def test_without_slices_nothing_is_shown():
    evidence = make_evidence()
    assert tabulate_slices(evidence) is None
    for text in (render_page(evidence), render_markdown(evidence)):
        assert "Slices of the gate split" not in text
        assert "worst slice" not in text
