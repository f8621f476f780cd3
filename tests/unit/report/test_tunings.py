"""The curve of a tuned quantization, on the page and in the comment."""

from __future__ import annotations

import pytest
from sample import WINNER, make_evidence

from kedro_hone.report.evidence import dump_evidence, parse_evidence
from kedro_hone.report.records import TuningPoint
from kedro_hone.report.rendering import render_markdown, render_page
from kedro_hone.report.tunings import MOST, describe_tuning, format_point, list_tunings, read_tuning

NOTES = {
    "strategy": "sensitivity",
    "metric": "accuracy",
    "limit": 0.01,
    "evaluations": 3,
    "operators": 49,
    "scored": 49,
    "int8": 41,
    "excluded": ["/layer.1/<o>/MatMul", "/layer.3/o/MatMul"],
    "curve": [
        {"share": 1.0, "drop": 0.228, "time": 0.5},
        {"share": 0.75, "drop": None, "time": None},
        {"share": 0.84, "drop": 0.002, "time": 0.6},
    ],
}


def make(*names, notes=NOTES):
    """Return evidence in which these candidates are tuned."""
    evidence = make_evidence()
    tuned = [
        one.model_copy(update={"tuning": read_tuning({"tuned": notes})}) if one.id in names else one
        for one in evidence.candidates
    ]
    return evidence.model_copy(update={"candidates": tuple(tuned)})


def test_the_curve_is_on_the_page_and_in_the_comment():
    evidence = make(WINNER)
    page, comment = render_page(evidence), render_markdown(evidence)
    assert "41 of 49 operators are in int8, after 3 validations (sensitivity)" in page
    assert "41 of 49 operators are in int8, after 3 validations" in comment
    assert "<code>/layer.1/&lt;o&gt;/MatMul</code>" in page
    row = " | ".join(format_point(read_tuning({"tuned": NOTES}).curve[0], "accuracy"))
    assert row in comment


def test_the_drops_of_other_metrics_are_in_the_curve():
    curve = [{**point, "others": {"neighbours": 0.03}} for point in NOTES["curve"]]
    notes = {**NOTES, "others": {"neighbours": 0.01}, "curve": curve}
    comment = render_markdown(make(WINNER, notes=notes))
    drops = format_point(read_tuning({"tuned": notes}).curve[0], "accuracy")[1]
    assert drops in comment
    assert drops == "22.8 points, neighbours 0.03"
    assert describe_tuning(read_tuning({"tuned": notes})).endswith("the gate allows 1.0 points, neighbours 0.01")


def test_evidence_with_a_tuning_can_be_read_again():
    evidence = make(WINNER)
    assert parse_evidence(dump_evidence(evidence)) == evidence


def test_without_a_tuning_there_is_no_section():
    assert list_tunings(make_evidence()) == ()
    assert "Tuned int8" not in render_page(make_evidence())
    assert "Tuned int8" not in render_markdown(make_evidence())


def test_of_equal_tunings_only_the_first_is_listed_and_few_in_all():
    names = [one.id for one in make_evidence().candidates]
    assert len(list_tunings(make(*names))) == 1
    evidence = make_evidence()
    tuned = [
        one.model_copy(update={"tuning": read_tuning({"tuned": {**NOTES, "int8": place}})})
        for place, one in enumerate(evidence.candidates)
    ]
    assert len(list_tunings(evidence.model_copy(update={"candidates": tuple(tuned)}))) == MOST


@pytest.mark.parametrize("noted", [None, "yes", {}, {**NOTES, "operators": "many"}, {**NOTES, "curve": [{"share": 7}]}])
def test_notes_of_another_form_are_ignored(noted):
    assert read_tuning({"tuned": noted}) is None
    assert read_tuning({}) is None


def test_numbers_that_are_not_known_have_no_figure():
    assert format_point(TuningPoint(share=0.5), "accuracy")[1:] == ("not a number", "–")  # noqa: RUF001
