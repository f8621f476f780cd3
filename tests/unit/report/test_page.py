import itertools
import re
from html.parser import HTMLParser

import pytest
from controls import CONTROLS, find_controls
from sample import WINNER, make_evidence, make_publication, spoil

from hone_runtime.values.decision import Verdict
from hone_runtime.values.measurement import Interval, Status
from kedro_hone.report.records import PercentilesRecord
from kedro_hone.report.rendering import render_page

VOID = {"meta", "link", "br", "wbr", "input"}


class Outline(HTMLParser):
    """Collects what a test asks about, and fails on tags that are not closed in order."""

    def __init__(self, page):
        super().__init__()
        self.open, self.headings, self.texts, self.attributes = [], [], [], []
        self.feed(page)
        assert self.open == []

    def handle_starttag(self, tag, attrs):
        self.attributes += [(tag, name, value or "") for name, value in attrs]
        if tag in {"h1", "h2", "h3"}:
            self.headings.append(tag)
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.attributes += [(tag, name, value or "") for name, value in attrs]

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        if not {"style", "title"} & set(self.open):
            self.texts.append(data)

    @property
    def text(self):
        return " ".join("".join(self.texts).split())


@pytest.fixture(scope="module")
def page():
    return render_page(make_evidence(), make_publication())


@pytest.mark.parametrize("verdict", Verdict)
def test_every_verdict_stands_first_in_words(verdict):
    outline = Outline(render_page(make_evidence(verdict)))
    assert outline.headings[0] == "h1"
    assert outline.headings.count("h1") == 1
    assert outline.text.index(verdict.value) < outline.text.index("Every candidate")


def test_what_was_not_tried_is_said_to_have_reasons_of_its_own(page):
    """The budget is one of several: a faster candidate, the race's number of candidates, or a person."""
    text = Outline(page).text
    assert "Not built, validated or raced to the end; each row has the reason." in text
    assert "The budget ended" not in text


def test_every_candidate_is_there_with_its_reason(page):
    text = Outline(page).text
    for candidate in make_evidence().candidates:
        assert candidate.id in text
        assert " ".join(candidate.reason.split()) in text
        assert candidate.note in text


def test_headings_skip_no_level(page):
    levels = [int(heading[1]) for heading in Outline(page).headings]
    assert all(after <= before + 1 for before, after in itertools.pairwise(levels))


def test_every_table_has_a_caption(page):
    assert page.count("<table") == page.count("<caption") > 5


@pytest.mark.attack(
    what="a report that calls home when it is opened",
    who="registry",
    stopped_by="the page's policy forbids all requests",
)
def test_the_page_asks_for_nothing_from_outside(page):
    names = {"src", "href", "xlink:href", "action", "data", "poster", "srcset"}
    targets = [value for _, name, value in Outline(page).attributes if name in names]
    assert targets
    assert all(target.startswith(("#", "data:")) for target in targets)
    assert "<script" not in page
    assert "@import" not in page
    assert "url(" not in page
    assert "default-src 'none'" in page


def test_ids_are_unique(page):
    ids = [value for _, name, value in Outline(page).attributes if name == "id"]
    assert len(ids) == len(set(ids))


@pytest.mark.attack(
    what="a script in a model's names and errors, for the page",
    who="registry",
    stopped_by="all text is escaped; the page's policy forbids scripts",
)
def test_what_comes_from_a_model_cannot_become_markup():
    evil = "<script>alert(1)</script><img src=x onerror=alert(2)>\"'"
    evidence = make_evidence()
    candidate = evidence.candidates[1].model_copy(
        update={"reason": evil, "note": evil, "id": evil, "route": (evil, evil), "status": Status.DROPPED}
    )
    source = evidence.source.model_copy(update={"uri": evil})
    evidence = evidence.model_copy(update={"candidates": (candidate, *evidence.candidates), "source": source})
    page = render_page(evidence.model_copy(update={"reasons": (evil,)}))
    assert "<script" not in page
    assert "<img" not in page
    assert evil in Outline(page).text


def test_the_usage_has_three_lines_and_the_published_uri(page):
    code = re.search(r"<pre[^>]*><code>(.*?)</code></pre>", page, re.DOTALL)
    assert code is not None
    assert code[1].count("\n") == 2
    assert "models:/digits@honed" in code[1]


def test_an_unpublished_winner_is_loaded_by_its_path():
    evidence = make_evidence()
    assert f"kedro_hone.load(&#34;{evidence.winner.path}&#34;)" in render_page(evidence)


def test_without_a_winner_nothing_is_offered_to_load():
    assert "kedro_hone.load" not in render_page(make_evidence(Verdict.KEEP))


def test_steps_can_be_replayed(page):
    assert "kedro hone replay 01-pytorch.onnx-export" in Outline(page).text


def test_a_run_that_measured_nothing_has_a_page_too():
    evidence = make_evidence(Verdict.KEEP)
    nothing = evidence.confirmation.model_copy(update={"finalists": (), "source_latency": (), "control": ()})
    bare = evidence.model_copy(
        update={
            "speedup": None, "speedups": (), "latency": None, "latencies": (), "quality": (), "confirmation": nothing,
            "environments": (), "data": (), "steps": (), "phase_seconds": {}, "candidates": (),
            "break_even_calls": None, "optimization_seconds": 0.0,
        }
    )  # fmt: skip
    assert "The original stays" in Outline(render_page(bare)).text


def test_the_winner_is_marked_in_its_row(page):
    row = re.search(r'<tr class="is-winner">(.*?)</tr>', page, re.DOTALL)
    assert row is not None
    assert WINNER in re.sub("<[^>]*>", "", row[1])
    assert ">winner<" in row[1]


def test_the_processor_is_named_with_its_instructions(page):
    assert Outline(page).text.count("Platinum 8488C (AVX-512, VNNI, BF16, AMX), 2 cores") == 2


def test_no_control_characters_are_in_the_report():
    publication = make_publication().model_copy(update={"uri": f"models:/{CONTROLS}@honed"})

    text = render_page(spoil(make_evidence()), publication)

    assert "\ufffd" in text
    assert not find_controls(text)


def test_candidates_are_folded_by_outcome_and_the_measured_are_open(page):
    groups = re.findall(r'<details class="group"( open)?>.*?<section id="(\w+)"', page, re.DOTALL)
    assert [name for state, name in groups if state] == ["measured"]
    assert len(groups) == 5


def test_hardware_and_versions_are_folded(page):
    section = page[page.index('<section id="environment"') : page.index('<section id="lineage"')]
    shown, folded = section.split("<details", 1)
    assert "Platinum 8488C" not in shown
    assert "Environment of each toolchain" in folded.split("</details>")[0]


def test_percentiles_have_intervals_and_what_too_few_calls_support_is_left_out():
    interval = Interval(estimate=0.2, low=0.15, high=0.25)
    record = PercentilesRecord(id="source", shape="batch1", launches=7, fewest_calls=80, p50=interval, p90=interval)
    text = Outline(render_page(make_evidence(percentiles=(record,)))).text
    row = text.partition("source model source batch 1 ")[2].partition(" 780 calls or more in each")[0]
    assert re.findall(r"\d\.\d+ ms", row) == ["0.200 ms", "0.150 ms", "0.250 ms"] * 2
    assert row.endswith("–")  # noqa: RUF001 - as the page writes what is absent
    assert "call by call" not in Outline(render_page(make_evidence())).text
