"""The view of a run's evidence: its headline, the warning of a busy machine, and groups of one reason."""

# ruff: noqa: RUF001 - typographic signs

import io
import re
from pathlib import Path

import pytest
from pydantic import ValidationError
from rich.console import Console
from sample import make_evidence

from hone_runtime.values.decision import Verdict
from hone_runtime.values.judgement import GateOutcome, Judgement
from hone_runtime.values.measurement import Confirmation, Interval, Status
from kedro_hone.report import wording
from kedro_hone.report.console import print_verdict
from kedro_hone.report.records import CandidateRecord, group_reasons
from kedro_hone.report.rendering import render_markdown, render_page
from kedro_hone.report.view import View


def make_busy(share, *, verdict=Verdict.PASS, ratio=None):
    """Evidence whose confirmation was made next to others, and where asked with another ratio at batch 64."""
    evidence = make_evidence(verdict)
    speedups = evidence.speedups
    if ratio is not None:
        speedups = (speedups[0], speedups[1].model_copy(update={"ratio": Interval(**ratio)}))
    finalists = (evidence.finalists[0].model_copy(update={"speedups": speedups}), *evidence.finalists[1:])
    confirmation = evidence.confirmation.model_copy(update={"other_load": share, "finalists": finalists})
    return evidence.model_copy(update={"confirmation": confirmation, "speedups": speedups})


WIDE = {"estimate": 7.9, "low": 2.74, "high": 23.05}


def print_all(evidence):
    """The console's, the page's and the comment's text, in one line each."""
    stream = io.StringIO()
    print_verdict(evidence, Console(file=stream, width=400), folder=Path("run"))
    page = re.sub(r"<[^>]+>|&nbsp;|\u00a0|\u2060", " ", render_page(evidence))
    return [" ".join(text.split()) for text in (stream.getvalue(), page, render_markdown(evidence))]


@pytest.mark.parametrize("verdict", Verdict)
def test_a_busy_machine_is_named_everywhere(verdict):
    headline = View(make_busy(0.62, verdict=verdict)).headline
    assert ("on a busy machine" in headline) == (verdict is Verdict.PASS)
    for text in print_all(make_busy(0.62, verdict=verdict)):
        assert "other processes took 62 % of its cores" in text


def test_the_race_counts_where_nothing_was_confirmed():
    evidence = make_busy(None, verdict=Verdict.INCONCLUSIVE)
    race = evidence.race.model_copy(update={"other_load": 0.4})
    assert "40 %" in View(evidence.model_copy(update={"race": race})).load


def test_load_says_nothing_where_nothing_was_compared():
    evidence = make_busy(0.6, verdict=Verdict.INCONCLUSIVE)
    alone = tuple(one.model_copy(update={"ratios": {}}) for one in evidence.candidates)
    assert View(evidence.model_copy(update={"candidates": alone})).load == ""


def test_the_load_next_to_what_is_published_counts_too():
    evidence = make_busy(0.02)
    row = Judgement(name="other_load", candidate="a", judgement=GateOutcome.HOLDS, measured=0.2, against="honed")
    evidence = evidence.model_copy(update={"gates": (*evidence.gates, row)})
    assert "on a busy machine" in View(evidence).headline
    assert "other processes took 20 % of its cores" in View(evidence).load
    assert all(", against honed" in text for text in print_all(evidence)[1:])
    unknown = evidence.confirmation.model_copy(update={"other_load": None})
    assert "took 20 %" in View(evidence.model_copy(update={"confirmation": unknown})).load


@pytest.mark.parametrize("share", [-0.1, 1.5, float("nan"), float("inf"), "much"])
def test_a_share_that_is_none_is_no_evidence(share):
    with pytest.raises(ValidationError, match="other_load"):
        Confirmation.model_validate({**make_busy(0.02).confirmation.model_dump(), "other_load": share})


@pytest.mark.parametrize("share", [None, 0.0, 0.1])
def test_an_idle_machine_is_not_remarked_upon(share):
    evidence = make_busy(share)
    assert View(evidence).load == ""
    assert all("other processes" not in text for text in print_all(evidence))


EVEN, SLOWER, FASTER = (
    {"estimate": 1.02, "low": 0.96, "high": 1.09},
    {"estimate": 0.8, "low": 0.75, "high": 0.9},
    {"estimate": 1.3, "low": 1.2, "high": 1.4},
)


def test_a_shape_at_which_nothing_is_proved_is_told_by_its_interval():
    said = View(make_busy(0.0, ratio=EVEN)).headline
    assert said.startswith("4.6× faster at batch 1 and between 0.96× and 1.09× as fast at batch 64,")
    said = View(make_busy(0.0, ratio=SLOWER)).headline
    assert said.startswith("4.6× faster at batch 1 and 0.80× as fast at batch 64,")


@pytest.mark.parametrize(
    ("ratios", "said"),
    [
        ([FASTER] * 4, "1.30× to 1.30× faster across 4 shapes"),
        ([FASTER, FASTER, SLOWER, FASTER], "0.80× to 1.30× as fast across 4 shapes"),
        ([FASTER, FASTER, EVEN, FASTER], "Between 0.96× and 1.40× as fast across 4 shapes"),
    ],
)
def test_many_shapes_are_told_by_their_ends(ratios, said):
    evidence = make_busy(0.0)
    speedups = [evidence.speedups[0].model_copy(update={"ratio": Interval(**ratio)}) for ratio in ratios]
    assert View(evidence.model_copy(update={"speedups": tuple(speedups)})).headline.startswith(said)


def test_a_wide_interval_is_the_headline_instead_of_its_middle():
    evidence = make_busy(0.62, ratio=WIDE)
    assert View(evidence).headline.startswith("4.6× faster at batch 1 and between 2.7× and 23× at batch 64,")
    first = make_busy(0.62, ratio=WIDE).model_copy(update={"speedups": evidence.speedups[1:]})
    assert View(first).headline.startswith("Between 2.7× and 23× faster at batch 64,")


def test_a_wide_interval_among_many_shapes():
    evidence = make_busy(None, ratio=WIDE)
    many = tuple(speedup.model_copy(update={"shape": f"batch{n}"}) for n in (1, 2) for speedup in evidence.speedups)
    assert View(evidence.model_copy(update={"speedups": many})).headline.startswith(
        "Between 2.7× and 23× faster across 4 shapes,"
    )


def test_the_middle_of_a_wide_interval_is_never_bold():
    evidence = make_busy(None, ratio=WIDE)
    assert "**7.9×**" not in render_markdown(evidence)
    assert "<b>7.9×</b>" not in render_page(evidence)
    assert "**2.7–23.1×**" in render_markdown(evidence)


def test_an_end_that_is_not_known_is_not_printed():
    endless = Interval(estimate=7.9, low=2.74, high=1.7e308)
    assert wording.format_range(endless) == "2.7× or more"
    assert wording.format_pair(endless)[0] == "2.7× or more"


def test_the_interval_of_two_launches_is_printed_nowhere():
    wild = Interval(estimate=136.0, low=6.0e-59, high=3.1e62)
    evidence = make_busy(None, ratio=wild.model_dump())
    assert wording.format_range(wild) == "too few measurements for an interval"
    assert wording.format_pair(wild) == ("136×", "too few measurements for an interval")
    stream = io.StringIO()
    print_verdict(evidence, Console(file=stream, width=100), folder=Path("data/hone/runs/last"))
    pages = [render_page(evidence), render_markdown(evidence), stream.getvalue(), View(evidence).headline]
    assert all("too few measurements for an interval" in text for text in pages)
    assert not [text for text in pages if re.search(r"[0-9,]{15}", re.sub(r"sha256:\w+", "", text))]


def test_a_proof_without_a_telling_end_keeps_its_lower_end():
    assert wording.format_range(Interval(estimate=136.0, low=1.2, high=15_000.0)) == "1.20× or more"
    assert wording.format_least(Interval(estimate=136.0, low=1.2, high=15_000.0)) == "136× (at least 1.20×)"
    assert wording.format_ratio(3.1e62) == "over 1,000,000×"


def test_a_cold_start_was_measured_once():
    assert "measured once" not in render_markdown(make_evidence(Verdict.KEEP))
    assert re.search(r"cold start \|.*\| measured once \|", render_markdown(make_evidence()))


def test_headline_of_a_pass_names_every_shape_and_the_metric():
    assert View(make_evidence()).headline == (
        "4.6× faster at batch 1 and batch 64, accuracy unchanged within 0.61 points"
    )


def test_headline_without_a_measured_speedup_promises_none():
    headline = View(make_evidence(speedup=None, speedups=())).headline
    assert headline == "Every gate holds, accuracy unchanged within 0.61 points"


def test_headline_keeps_unequal_shapes_apart():
    evidence = make_evidence()
    first, second = evidence.speedups
    faster = second.model_copy(update={"ratio": Interval(estimate=6.21, low=6.0, high=6.5)})
    evidence = evidence.model_copy(update={"speedups": (first, faster)})
    assert View(evidence).headline.startswith("4.6× faster at batch 1 and 6.2× at batch 64,")


def test_headline_owns_up_to_a_loss():
    evidence = make_evidence()
    lossy = evidence.quality[0].model_copy(update={"drop": Interval(estimate=0.003, low=-0.003, high=0.009)})
    evidence = evidence.model_copy(update={"quality": (lossy,)})
    assert View(evidence).headline.endswith("accuracy down by 0.3 points, at most 0.9 points")
    error = lossy.model_copy(update={"metric": "mean_absolute_error", "higher_is_better": False})
    evidence = evidence.model_copy(update={"quality": (error,)})
    assert View(evidence).headline.endswith("mean absolute error up by 0.003, at most 0.009")


def drop_finalists(evidence):
    confirmation = evidence.confirmation.model_copy(update={"finalists": ()})
    return evidence.model_copy(update={"confirmation": confirmation})


@pytest.mark.parametrize("verdict", [Verdict.KEEP, Verdict.FAIL, Verdict.INCONCLUSIVE, Verdict.DRAFT])
def test_no_other_verdict_promises_speed(verdict):
    assert "×" not in View(make_evidence(verdict)).headline


def test_nothing_compared_is_not_called_undecided_measurements():
    evidence = make_evidence(Verdict.INCONCLUSIVE)
    assert View(evidence).headline == "The measurements cannot decide"
    assert "could be compared" in View(drop_finalists(evidence)).headline


def test_the_report_is_about_the_winner_or_the_best_finalist():
    passed, kept = make_evidence(), make_evidence(Verdict.KEEP)
    assert passed.subject == passed.winner.candidate == passed.subject_quality[0].id
    assert kept.subject == kept.finalists[0].id
    assert drop_finalists(kept).subject is None


AGAINST = "the exported program, run as an ordinary PyTorch module in eager mode with 2 threads"


def name_no_class(verdict, **changes):
    evidence = make_evidence(verdict, **changes)
    source = evidence.source.model_copy(update={"baseline": AGAINST})
    recipe = {**evidence.recipe, "model": {**evidence.recipe["model"], "module": None}}
    return evidence.model_copy(update={"recipe": recipe, "source": source})


@pytest.mark.parametrize("verdict", Verdict)
def test_headline_says_what_was_measured_against_where_no_class_was_named(verdict):
    evidence = name_no_class(verdict)
    assert View(evidence).headline.endswith(f", measured against {AGAINST}")
    named = evidence.model_copy(update={"recipe": make_evidence().recipe})
    assert View(named).headline == View(make_evidence(verdict)).headline


def test_nothing_was_measured_against_where_nothing_could_be_compared():
    evidence = drop_finalists(name_no_class(Verdict.INCONCLUSIVE))
    assert View(evidence).headline == "No candidate could be compared with the original"


def test_the_first_line_says_it_everywhere():
    evidence = name_no_class(Verdict.PASS)
    stream = io.StringIO()
    print_verdict(evidence, Console(file=stream, width=400), folder=Path("run"))
    assert f"measured against {AGAINST}." in stream.getvalue().splitlines()[0]
    assert f"measured against {AGAINST}" in render_markdown(evidence).splitlines()[0]
    heading = re.search(r'<h1 id="headline">(.*?)</h1>', render_page(evidence), re.DOTALL)
    assert f"measured against {AGAINST}" in " ".join(re.sub(r"<[^>]+>|&nbsp;|\u2060", "", heading[1]).split())


def record(name, reason="", failure=None):
    return CandidateRecord(id=name, route=(name,), status=Status.FAILED, reason=reason, failure_class=failure)


def test_one_reason_of_one_class_is_one_group_in_the_order_given():
    rows = [record("a", "x", "convert"), record("b", "y"), record("c", "x", "convert"), record("d", "x", "load")]

    assert [[one.id for one in group] for group in group_reasons(rows)] == [["a", "c"], ["b"], ["d"]]


def test_without_a_reason_each_stands_alone():
    assert [len(group) for group in group_reasons([record("a"), record("b")])] == [1, 1]
