from __future__ import annotations

import pytest
from markdown_it import MarkdownIt
from sample import make_evidence

from kedro_hone.report.description import describe_winner, list_readable_tags


def test_the_first_line_says_how_much_faster_at_what_cost():
    evidence = make_evidence()
    first = describe_winner(evidence).splitlines()[0]
    ratio, drop = evidence.speedup.ratio, evidence.subject_quality[0].drop
    assert first.startswith(f"**{ratio.estimate:.1f} times as fast ({ratio.low:.1f} to {ratio.high:.1f}) at batch ")
    assert f"as `{evidence.source.uri}`" in first
    assert f"accuracy within {drop.high * 100:.2f}".rstrip("0") in first


def test_it_says_where_the_report_is_and_nothing_of_a_registry():
    text = describe_winner(make_evidence())
    assert "Report: `evidence/report.html`" in text
    assert "kedro_hone.load" not in text
    assert "onnxruntime.int8-static" in text


def test_it_is_markdown_with_a_table():
    page = MarkdownIt("commonmark").enable("table").render(describe_winner(make_evidence()))
    assert page.count("<table>") == 1
    assert "<strong>" in page
    assert "<td" in page


def test_four_tags_are_for_people():
    tags = list_readable_tags(make_evidence())
    assert set(tags) == {"Speed", "Quality", "Made by", "Measured on"}
    assert "times as fast (" in tags["Speed"]
    assert tags["Quality"].startswith("accuracy 9")
    assert all(len(text) <= 500 for text in tags.values())


def test_what_a_stranger_wrote_is_no_markdown():
    evidence = make_evidence()
    odd = evidence.source.model_copy(update={"uri": "models:/a`[x](http://evil)\x1b[2J/1"})
    text = describe_winner(evidence.model_copy(update={"source": odd}))
    assert "\x1b" not in text
    assert "](http" not in MarkdownIt().render(text).replace("<code>", "").partition("</code>")[2]


@pytest.mark.parametrize("low", [1.04, 12.0])
def test_ends_are_written_as_the_middle_is(low):
    evidence = make_evidence()
    ratio = evidence.speedup.ratio.model_copy(update={"estimate": low * 1.1, "low": low, "high": low * 1.2})
    speedup = evidence.speedup.model_copy(update={"ratio": ratio})
    found = describe_winner(evidence.model_copy(update={"speedup": speedup}))
    assert ("**1.14 times as fast (1.04 to 1.25)" in found) == (low < 2)
    assert ("**13 times as fast (12 to 14)" in found) == (low > 2)


def test_an_end_that_is_not_known_is_none():
    evidence = make_evidence()
    ratio = evidence.speedup.ratio.model_copy(update={"high": 1.5e308})
    speedup = evidence.speedup.model_copy(update={"ratio": ratio})
    found = describe_winner(evidence.model_copy(update={"speedup": speedup}))
    assert " or more) at" in found


def test_without_a_speedup_it_is_not_called_faster():
    evidence = make_evidence().model_copy(update={"speedup": None})
    assert describe_winner(evidence).startswith(f"**Made from** `{evidence.source.uri}`, accuracy within ")
    assert "aster" not in describe_winner(evidence)
    assert "Speed" not in list_readable_tags(evidence)
