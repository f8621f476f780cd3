"""The sentence where two median times do not divide to the speed-up next to them."""

# ruff: noqa: RUF001 - typographic signs

from __future__ import annotations

import io
from pathlib import Path

from rich.console import Console
from sample import make_evidence

from kedro_hone.report.console import print_verdict
from kedro_hone.report.quotients import describe_quotients
from kedro_hone.report.rendering import render_markdown, render_page


def make_slow_source(factor):
    """Evidence whose source was slower by a factor in calls that no launch pairs with those of the winner."""
    evidence = make_evidence()
    speedup, finalist = evidence.speedups[0], evidence.finalists[0]
    own = next(one for one in finalist.latency if one.shape == speedup.shape)
    slow = own.p50_ms * speedup.ratio.estimate * factor
    latencies = tuple(
        one.model_copy(update={"source": one.source.model_copy(update={"p50_ms": slow})})
        if one.source.shape == speedup.shape
        else one
        for one in evidence.latencies
    )
    return evidence.model_copy(update={"latencies": latencies, "speedups": (speedup,)})


def test_a_quotient_far_from_the_speedup_is_explained_in_every_report():
    evidence = make_slow_source(0.66)
    said = describe_quotients(evidence)
    assert "their quotient, 3.0× at batch 1, also contains" in said
    stream = io.StringIO()
    print_verdict(evidence, Console(file=stream), folder=Path("run"))
    assert f"Times: {said}" in stream.getvalue()
    assert said.partition(",")[0] in render_markdown(evidence)
    assert "their quotient, 3.0× at batch 1" in render_page(evidence)


def test_a_quotient_close_to_the_speedup_is_not():
    assert describe_quotients(make_slow_source(1.05)) == ""
    assert describe_quotients(make_slow_source(1.05).model_copy(update={"latencies": ()})) == ""
