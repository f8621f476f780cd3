import pytest
from controls import CONTROLS, find_controls
from markdown_it import MarkdownIt
from sample import make_evidence, make_publication, spoil

from hone_runtime.values.decision import Verdict
from hone_runtime.values.measurement import Status
from kedro_hone.report import rendering
from kedro_hone.report.records import CandidateRecord
from kedro_hone.report.rendering import escape_markdown, render_markdown


def make_crowd(count):
    evidence = make_evidence()
    crowd = tuple(
        CandidateRecord(
            id=f"onnx.crowd_{number}", route=("pytorch.onnx-export", f"crowd.member-{number}"),
            status=Status.REFUSED, reason="It cannot take this model, for a reason of ordinary length: ✗.",
        )
        for number in range(count)
    )  # fmt: skip
    return evidence.model_copy(update={"candidates": (*evidence.candidates, *crowd)})


@pytest.mark.parametrize("verdict", Verdict)
def test_the_verdict_comes_first(verdict):
    text = render_markdown(make_evidence(verdict))
    assert verdict.value in text.splitlines()[0]
    assert len(text.encode()) < 60_000


def test_every_candidate_is_there():
    text = render_markdown(make_evidence(), make_publication())
    for candidate in make_evidence().candidates:
        assert (" → ".join(candidate.route) or "source model") in text
    assert 'kedro_hone.load("models:/digits@honed")' in text


def test_details_are_closed_and_tables_are_tables():
    text = render_markdown(make_evidence())
    assert text.count("<details>") == text.count("</details>") > 4
    html = MarkdownIt("gfm-like", {"linkify": False}).render(text)
    assert html.count("<table>") == 7
    assert "|---|" not in html


@pytest.mark.parametrize("limit", [2000, 2500, 5000, 20_000, 60_000])
def test_a_long_report_is_cut_cleanly(limit, monkeypatch):
    monkeypatch.setattr(rendering, "LIMIT", limit)
    text = render_markdown(make_crowd(2000))
    assert len(text.encode()) <= limit
    assert text.count("<details>") == text.count("</details>")
    assert text.count("```") % 2 == 0
    assert "report.html" in text.splitlines()[-1]
    assert "PASS" in text.splitlines()[0]


def test_what_was_left_out_is_counted():
    text = render_markdown(make_crowd(2000))
    shown = text.count("crowd.member-")
    assert f"… and {2000 + 5 - shown - 5:,} more in `report.html`." in text


def test_reasons_of_any_length_do_not_break_it():
    evidence = make_evidence().model_copy(update={"reasons": ("x" * 100_000,)})
    text = render_markdown(evidence)
    assert len(text.encode()) <= 60_000
    assert "PASS" in text


@pytest.mark.attack(
    what="links, pictures and headings in an error, for the comment on a pull request",
    who="registry",
    stopped_by="Markdown is escaped",
)
@pytest.mark.parametrize(
    "evil",
    [
        "<script>alert(1)</script>",
        "![x](http://tracker.example/pixel.png)",
        "[click](http://evil.example)",
        "</details>",
        "a | b | c",
        "**bold** `code` ~~gone~~",
        "first\n\n## second",
    ],
)
def test_foreign_text_is_shown_as_it_is(evil):
    evidence = make_evidence().model_copy(update={"reasons": (evil,)})
    html = MarkdownIt("gfm-like", {"linkify": False, "html": True}).render(render_markdown(evidence))
    for tag in ("<script", "<img", "<a ", "<strong>bold", "<del>", "<s>"):
        assert tag not in html
    assert html.count("</details>") == html.count("<details>")
    assert html.count("<h2>") == 1


@pytest.mark.attack(
    what="a mention or a link in an error, for the comment on a pull request",
    who="registry",
    stopped_by="Markdown is escaped",
)
def test_nobody_is_mentioned_and_nothing_is_referred_to():
    assert "@user" not in escape_markdown("hello @user")
    assert "#12" not in escape_markdown("see #12")
    assert "https://" not in escape_markdown("https://tracker.example")
    assert "ftp://" not in escape_markdown("ftp://tracker.example")
    assert "www." not in escape_markdown("www.tracker.example or WWW.tracker.example").lower()
    assert escape_markdown("&commat;user &lt;b&gt;") == r"\&commat;user \&lt;b\&gt;"


@pytest.mark.attack(what="a name that ends its code span", who="registry", stopped_by="back ticks are replaced")
@pytest.mark.parametrize("evil", ["`|`@user` <img src=x>", "a|b"])
def test_foreign_names_cannot_leave_their_back_ticks(evil):
    evidence = make_evidence()
    candidate = evidence.candidates[-1].model_copy(update={"route": (evil,)})
    evidence = evidence.model_copy(update={"candidates": (candidate,)})
    html = MarkdownIt("gfm-like", {"linkify": False, "html": True}).render(render_markdown(evidence))
    assert "<img" not in html
    assert html.count("<td>") % 2 == 0


@pytest.mark.attack(
    what="line breaks in a name or an error, for the comment, report.md and the log that prints them",
    who="registry",
    stopped_by="foreign text is one line in Markdown",
)
@pytest.mark.parametrize("end", ["\n", "\r", "\n        ", "\x85", "\u2028"])
def test_no_foreign_text_begins_a_line(end):
    evil = f"age{end}::error file=a.py::owned"
    evidence = make_evidence()
    candidate = evidence.candidates[-1].model_copy(update={"route": (evil,), "reason": evil})
    evidence = evidence.model_copy(update={"candidates": (candidate,), "reasons": (evil,)})
    text = render_markdown(evidence)
    assert text.count("owned") > 1
    assert not [line for line in text.splitlines() if line.lstrip().startswith("::")]


def test_the_processor_is_named_with_its_instructions():
    assert "8488C (AVX-512, VNNI, BF16, AMX), 2 cores" in render_markdown(make_evidence())


def test_no_control_characters_are_in_the_report():
    publication = make_publication().model_copy(update={"uri": f"models:/{CONTROLS}@honed"})

    text = render_markdown(spoil(make_evidence()), publication)

    assert "\ufffd" in text
    assert not find_controls(text)
