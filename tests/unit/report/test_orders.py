"""The orders of the candidates' tables."""

from __future__ import annotations

import re

from sample import make_evidence

from hone_runtime.values.measurement import Status
from kedro_hone.report.orders import list_orders
from kedro_hone.report.rendering import render_page
from kedro_hone.report.view import View


def list_measured():
    return View(make_evidence()).groups[Status.MEASURED]


def test_each_order_puts_the_smallest_first():
    candidates = list_measured()
    orders = {order.name: order.places for order in list_orders(candidates)}

    assert list(orders) == ["quality", "size", "start", "memory", "build"]
    for places in orders.values():
        assert sorted(places) == list(range(1, len(candidates) + 1))
    sizes = [one.size_bytes for _, one in sorted(zip(orders["size"], candidates, strict=True))]
    assert sizes == sorted(sizes)


def test_what_was_not_measured_is_last_and_equal_rows_keep_their_order():
    first, second, third = list_measured()[:3]
    rows = [first.model_copy(update={"size_bytes": size}) for size in (None, 7, 0)]
    equal = [one.model_copy(update={"size_bytes": 7}) for one in (first, second, third)]

    assert {order.name: order.places for order in list_orders(rows)}["size"] == (3, 2, 1)
    assert {order.name: order.places for order in list_orders(equal)}["size"] == (1, 2, 3)


def test_an_order_without_values_is_not_offered():
    rows = [one.model_copy(update={"size_bytes": None, "build_seconds": 0.0}) for one in list_measured()]

    assert {order.name for order in list_orders(rows)} == {"quality", "start", "memory"}
    assert list_orders(rows[:1]) == ()


def test_the_page_has_a_place_for_each_row_in_each_order():
    page = render_page(make_evidence())
    (order,) = (one for one in list_orders(list_measured()) if one.name == "size")

    rules = re.findall(r"#measured:has\(#measured-by-size:checked\) tbody tr:nth-child\((\d+)\) \{ order: (\d+)", page)

    assert tuple(int(place) for _, place in rules) == order.places
    assert [int(row) for row, _ in rules] == list(range(1, len(order.places) + 1))
    assert 'id="measured-by-size"' in page
    assert "<script" not in page


def test_the_layout_has_a_column_for_each_head():
    """Rows that are placed by the style take their columns from it, and from no table."""
    page = render_page(make_evidence())
    (columns,) = re.findall(r"#measured \.table-box \{ --columns: (\d+)", page)
    head = page[page.index('<section id="measured"') :].partition("</thead>")[0]

    assert head.count("<th ") == 2 + int(columns)
