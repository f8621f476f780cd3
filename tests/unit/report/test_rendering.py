# ruff: noqa: RUF001 - typographic signs

from __future__ import annotations

import pytest
from markdown_it import MarkdownIt
from sample import make_evidence

from kedro_hone.report.rendering import describe_winner, list_readable_tags
from kedro_hone.report.view import View


def test_it_begins_with_the_headline_of_all_reports():
    evidence = make_evidence()
    first, *_, table = describe_winner(evidence).partition("\n")
    assert first == f"**{View(evidence).headline}.** Source: `{evidence.source.uri}`."
    assert first.startswith("**4.6× faster at batch 1 and batch 64, accuracy unchanged within 0.61 points.**")
    ratio = evidence.speedup.ratio
    assert f"**{ratio.estimate:.1f}×** (95 %: {ratio.low:.1f}–{ratio.high:.1f}×)" in table


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
    assert tags["Speed"].startswith("4.6× as fast (4.3–4.9×) at batch ")
    assert tags["Quality"].startswith("accuracy 9")
    assert all(len(text) <= 500 for text in tags.values())


def test_what_a_stranger_wrote_is_no_markdown():
    evidence = make_evidence()
    odd = evidence.source.model_copy(update={"uri": "models:/a`[x](http://evil)\x1b[2J/1"})
    text = describe_winner(evidence.model_copy(update={"source": odd}))
    assert "\x1b" not in text
    assert "](http" not in MarkdownIt().render(text).replace("<code>", "").partition("</code>")[2]


def change_ratio(evidence, **ends):
    """Change the deciding ratio, in the tags, and the same in the headline and the table."""
    ratio = evidence.speedup.ratio.model_copy(update=ends)
    changed = evidence.speedup.model_copy(update={"ratio": ratio})
    return evidence.model_copy(update={"speedup": changed, "speedups": (changed,)})


@pytest.mark.parametrize(("low", "text"), [(1.04, "1.14× as fast (1.04–1.25×)"), (12.0, "13× as fast (12–14×)")])
def test_ends_are_written_as_the_middle_is(low, text):
    evidence = change_ratio(make_evidence(), estimate=low * 1.1, low=low, high=low * 1.2)
    assert list_readable_tags(evidence)["Speed"].startswith(text)


def test_an_end_that_is_not_known_is_none():
    evidence = change_ratio(make_evidence(), high=1.5e308)
    assert "4.3× or more" in list_readable_tags(evidence)["Speed"]
    assert describe_winner(evidence).startswith("**At least 4.3× faster at batch ")
    assert "4.3× or more" in describe_winner(evidence)


def test_without_a_speedup_it_is_not_called_faster():
    evidence = make_evidence().model_copy(update={"speedup": None, "speedups": ()})
    assert describe_winner(evidence).startswith("**Every gate holds, accuracy unchanged within 0.61 points.** Source: ")
    assert "aster" not in describe_winner(evidence)
    assert "Speed" not in list_readable_tags(evidence)
