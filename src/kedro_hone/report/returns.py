"""Throughput and cost: rows per second, and the cost of a million calls at the recipe's price of the machine."""

from __future__ import annotations

from typing import Final, NamedTuple

from kedro_hone.report import wording
from kedro_hone.report.evidence import Evidence
from kedro_hone.report.records import LatencyRecord

_CALLS: Final = 1_000_000
_MS_PER_HOUR: Final = 3_600_000


class Return(NamedTuple):
    """Throughput and cost at one shape; empty for unknown values, such as the winner's if there is no winner.

    ``throughput`` is of one call after the other, from the median latency, or of the shape's several clients at once;
    costs are of a million such calls.
    """

    shape: str
    throughput: str
    throughput_before: str
    cost: str
    cost_before: str
    saving: str


def list_returns(evidence: Evidence) -> tuple[Return, ...]:
    """Return throughput and cost at each shape, of the winner and of the source, or of the source alone."""
    return tuple(filter(None, (describe_return(evidence, both) for both in evidence.latencies)))


def describe_price(evidence: Evidence) -> str:
    """Return the price that costs are computed from, such as ``0.40 EUR an hour``; empty if the recipe has none."""
    found = _find_price(evidence)
    return f"{_format_money(*found)} an hour" if found else ""


def _find_price(evidence: Evidence) -> tuple[float, str] | None:
    section = evidence.recipe.get("report") or {}
    price = section.get("price_per_hour")
    return None if price is None else (float(price), str(section.get("currency") or ""))


def describe_return(evidence: Evidence, both: LatencyRecord) -> Return | None:
    """Return throughput and cost at one shape; None if the recipe gives it no batch."""
    shape = both.source.shape
    sizes = (evidence.recipe.get("shapes") or {}).get(shape) or {}
    batch = sizes.get("batch")
    if not batch:
        return None
    before, after = both.source.call_ms, both.winner.call_ms if both.winner else None
    price = _find_price(evidence)
    cost, cost_before, saving = "", "", ""
    if price:
        each, currency = price[0] * _CALLS / _MS_PER_HOUR, price[1]
        cost_before = _format_money(before * each, currency)
        if after is not None:
            cost = _format_money(after * each, currency)
            saving = (
                f"{_format_money((before - after) * each, currency)} ({wording.format_percent(1 - after / before)})"
            )
    return Return(
        shape=wording.format_shape(shape),
        throughput="" if after is None else wording.format_rate(1e3 * batch / after),
        throughput_before=wording.format_rate(1e3 * batch / before),
        cost=cost,
        cost_before=cost_before,
        saving=saving,
    )


def _format_money(amount: float, currency: str) -> str:
    written = f"{amount:,.2f}" if abs(amount) >= 1 or amount == 0 else f"{amount:.2g}"
    return f"{written} {currency}".rstrip()
