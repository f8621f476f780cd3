# ruff: noqa: RUF001 - typographic signs

import io
import re
from pathlib import Path

import pytest
from rich.console import Console
from sample import make_evidence

from kedro_hone.core.values.decision import Verdict
from kedro_hone.core.values.measurement import Interval
from kedro_hone.report import wording
from kedro_hone.report.console import print_verdict
from kedro_hone.report.rendering import render_markdown, render_page
from kedro_hone.report.view import View


@pytest.mark.parametrize(
    ("ratio", "text"), [(1.034, "1.03×"), (4.58, "4.6×"), (12.3, "12×"), (1234.0, "1,234×"), (0.71, "0.71×")]
)
def test_ratios(ratio, text):
    assert wording.format_ratio(ratio) == text


def test_a_range_never_looks_like_a_point():
    assert wording.format_range(Interval(estimate=4.6, low=4.21, high=5.08)) == "4.2–5.1×"
    assert wording.format_range(Interval(estimate=4.6, low=4.58, high=4.62)) == "4.58–4.62×"


@pytest.mark.parametrize(
    ("milliseconds", "text"),
    [
        (0.0123, "12.3 µs"),
        (0.134, "0.134 ms"),
        (2.13, "2.13 ms"),
        (41.0, "41.0 ms"),
        (312.4, "312 ms"),
        (1500, "1.50 s"),
    ],
)
def test_times(milliseconds, text):
    assert wording.format_ms(milliseconds) == text


@pytest.mark.parametrize(
    ("size", "text"), [(12, "12.0 B"), (280_000, "280 kB"), (999_900, "1.00 MB"), (16_400_000_000, "16.4 GB")]
)
def test_sizes(size, text):
    assert wording.format_bytes(size) == text


@pytest.mark.parametrize(
    ("seconds", "text"), [(2.44, "2.4 s"), (58.3, "58 s"), (346.3, "5 min 46 s"), (7300, "2 h 01 min")]
)
def test_durations(seconds, text):
    assert wording.format_seconds(seconds) == text


def test_shares_are_read_in_points_and_other_metrics_in_their_unit():
    assert wording.format_metric("accuracy_score", 0.9778) == "97.78 %"
    assert wording.format_drop("accuracy", 0.009) == "0.9 points"
    assert wording.format_drop("accuracy", -0.0061) == "−0.61 points"
    assert wording.format_drop("accuracy", -0.00001) == "0.0 points"
    assert wording.format_metric("mean_squared_error", 12.3456) == "12.35"
    assert wording.format_drop("mean_squared_error", 0.12345) == "0.123"


@pytest.mark.parametrize(
    ("name", "text"), [("batch64", "batch 64"), ("batch_8", "batch 8"), ("long_text", "long text")]
)
def test_shape_names(name, text):
    assert wording.format_shape(name) == text


def test_headline_of_a_pass_names_every_shape_and_the_metric():
    assert View(make_evidence()).headline == (
        "4.6× faster at batch 1 and batch 64, accuracy unchanged within 0.61 points"
    )


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


@pytest.mark.parametrize("verdict", [Verdict.KEEP, Verdict.FAIL, Verdict.INCONCLUSIVE])
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
    assert f"measured against {AGAINST}." in stream.getvalue().splitlines()[2]
    assert f"measured against {AGAINST}" in render_markdown(evidence).splitlines()[0]
    heading = re.search(r'<h1 id="headline">(.*?)</h1>', render_page(evidence), re.DOTALL)
    assert f"measured against {AGAINST}" in " ".join(re.sub(r"<[^>]+>|&nbsp;|\u2060", "", heading[1]).split())
