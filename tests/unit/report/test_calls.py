"""The small table of calls in the comment: what the page says at more length."""

# ruff: noqa: RUF001 - typographic signs

from __future__ import annotations

import pytest
from sample import make_evidence

from hone_runtime.values.decision import Verdict
from hone_runtime.values.digest import digest_json
from hone_runtime.values.measurement import Interval
from kedro_hone.report import rendering
from kedro_hone.report.calls import tabulate_calls
from kedro_hone.report.records import PercentilesRecord
from kedro_hone.report.rendering import render_markdown
from kedro_hone.report.returns import list_returns

PRICE = {"price_per_hour": 0.36, "currency": "EUR"}
P50 = Interval(estimate=0.2, low=0.15, high=0.25)
P90 = Interval(estimate=0.4, low=0.3, high=0.5)


def make_timed(verdict=Verdict.PASS, *, price=None, **percentiles):
    """Return evidence with percentiles of the source and of its winner, or finalist, at batch 1."""
    plain = make_evidence(verdict)
    recipe = {**plain.recipe, **({"report": price} if price else {})}
    recipe["digest"] = digest_json({name: value for name, value in recipe.items() if name != "digest"})
    records = [
        PercentilesRecord(id=one, shape="batch1", launches=7, fewest_calls=80, **percentiles)
        for one in ("source", plain.subject)
        if percentiles and one
    ]
    return make_evidence(verdict, recipe=recipe, percentiles=tuple(records))


def find_cell(table, row, column):
    cells = next(one for one in table.rows if one[0] == row)
    return cells[1 + table.columns.index(column)]


def test_percentiles_have_their_intervals_and_what_no_model_has_is_no_column():
    table = tabulate_calls(make_timed(p50=P50, p90=P90))

    assert table.columns == ("p50", "p90", "rows in a second")
    for role in ("source", "winner"):
        assert find_cell(table, f"{role}, batch 1", "p90") == "0.400 ms (0.300 ms–0.500 ms)"
        assert find_cell(table, f"{role}, batch 64", "p90") == "–"


def test_throughput_and_cost_are_those_of_the_page():
    evidence = make_timed(price=PRICE, p50=P50)
    table = tabulate_calls(evidence)

    assert table.columns == ("p50", "rows in a second", "a million calls")
    for one in list_returns(evidence):
        assert find_cell(table, f"source, {one.shape}", "rows in a second") == one.throughput_before
        assert find_cell(table, f"winner, {one.shape}", "rows in a second") == one.throughput
        assert find_cell(table, f"winner, {one.shape}", "a million calls") == f"{one.cost}, saves {one.saving}"


@pytest.mark.parametrize("verdict", [Verdict.KEEP, Verdict.FAIL])
def test_a_finalist_that_did_not_win_is_not_called_the_winner(verdict):
    table = tabulate_calls(make_timed(verdict, price=PRICE, p50=P50))

    assert not any(row[0].startswith("winner") for row in table.rows)
    assert find_cell(table, "finalist, batch 1", "p50").startswith("0.200 ms")
    assert find_cell(table, "finalist, batch 1", "a million calls") == "–"


def test_without_calls_there_is_no_table():
    evidence = make_evidence().model_copy(update={"latencies": (), "percentiles": ()})

    assert tabulate_calls(evidence) is None
    assert "hroughput" not in render_markdown(evidence)


def test_the_comment_has_it_folded_and_on_one_line_until_it_is_opened():
    evidence = make_timed(price=PRICE, p50=P50, p90=P90)
    text = render_markdown(evidence)
    head, _, rest = text.partition("<details><summary>Percentiles, throughput and cost</summary>")

    assert rest
    assert "rows in a second" not in head.replace("\\", "")
    part = rest.partition("</details>")[0]
    assert "95 % intervals over launches" in part
    assert "costs are of this machine at 0.36 EUR an hour" in part
    assert "| winner, batch 1 | 0.200 ms (0.150 ms–0.250 ms) |" in part


def test_a_currency_is_text(monkeypatch):
    evidence = make_timed(price={**PRICE, "currency": "<img src=x>|"})
    part = render_markdown(evidence).partition("<details><summary>Throughput and cost</summary>")[2]

    assert "<img" not in part.replace("\\<img", "")
    assert "\\|" in part


def test_a_long_comment_loses_rows_of_it_and_no_mark(monkeypatch):
    monkeypatch.setattr(rendering, "LIMIT", 2500)
    text = render_markdown(make_timed(price=PRICE, p50=P50))

    assert text.count("<details>") == text.count("</details>")
