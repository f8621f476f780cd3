"""Throughput and cost."""

from __future__ import annotations

import pytest
from sample import make_evidence

from hone_runtime.values.decision import Verdict
from hone_runtime.values.digest import digest_json
from kedro_hone.report.rendering import render_page
from kedro_hone.report.returns import describe_price, list_returns

PRICE = {"price_per_hour": 0.36, "currency": "EUR"}


def make_priced(verdict=Verdict.PASS, price=None, **changes):
    recipe = {**make_evidence().recipe, **({"report": price} if price else {}), **changes}
    recipe["digest"] = digest_json({name: value for name, value in recipe.items() if name != "digest"})
    return make_evidence(verdict, recipe=recipe)


def test_throughput_is_the_batch_over_the_median():
    evidence = make_priced()
    one, many = list_returns(evidence)

    for row, both, batch in zip((one, many), evidence.latencies, (1, 64), strict=True):
        assert float(row.throughput.replace(",", "")) == pytest.approx(batch / both.winner.p50_ms * 1e3, rel=1e-3)
        assert float(row.throughput_before.replace(",", "")) == pytest.approx(
            batch / both.source.p50_ms * 1e3, rel=1e-3
        )


def test_throughput_of_several_clients_is_that_of_their_blocks():
    evidence = make_priced()
    latencies = [
        both.model_copy(
            update={name: getattr(both, name).model_copy(update={"block_ms": 0.25}) for name in ("source", "winner")}
        )
        for both in evidence.latencies
    ]
    one, many = list_returns(evidence.model_copy(update={"latencies": tuple(latencies)}))

    assert (one.throughput, one.throughput_before, many.throughput) == ("4,000", "4,000", "256,000")


def test_costs_are_those_of_a_million_calls():
    evidence = make_priced(price=PRICE)
    (one, _) = list_returns(evidence)
    both = evidence.latencies[0]

    amounts = [float(text.split()[0]) for text in (one.cost_before, one.cost, one.saving)]
    wanted = [ms * 0.36 / 3.6 for ms in (both.source.p50_ms, both.winner.p50_ms)]
    assert amounts == pytest.approx([*wanted, wanted[0] - wanted[1]], rel=0.05)
    assert one.cost.endswith(" EUR")
    assert one.saving.endswith(" %)")
    assert describe_price(evidence) == "0.36 EUR an hour"


@pytest.mark.parametrize("verdict", Verdict)
def test_without_a_price_there_is_no_cost(verdict):
    evidence = make_priced(verdict)

    assert all((row.cost, row.cost_before, row.saving) == ("", "", "") for row in list_returns(evidence))
    assert describe_price(evidence) == ""
    assert "million calls" not in render_page(evidence)


def test_without_a_winner_nothing_is_saved():
    for row in list_returns(make_priced(Verdict.KEEP, price=PRICE)):
        assert (row.throughput, row.cost, row.saving) == ("", "", "")
        assert row.throughput_before
        assert row.cost_before


def test_a_shape_that_the_recipe_does_not_describe_has_no_throughput():
    assert [row.shape for row in list_returns(make_priced(shapes={"batch64": {"batch": 64}}))] == ["batch 64"]


def test_the_page_has_them():
    page = render_page(make_priced(price={"price_per_hour": 0.36, "currency": "<b>EUR</b>"}))

    assert "rows in a second" in page
    assert "A million calls" in page
    assert "&lt;b&gt;EUR&lt;/b&gt;" in page
    assert "<b>EUR</b>" not in page
