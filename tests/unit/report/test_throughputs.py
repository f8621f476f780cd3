"""Throughput of several clients, with intervals over launches."""

from __future__ import annotations

import json

import numpy as np
import pytest
from sample import make_evidence

from kedro_hone.core.stats.intervals import interval_of_ratios
from kedro_hone.report.evidence import dump_evidence, parse_evidence
from kedro_hone.report.records import ThroughputRecord
from kedro_hone.report.rendering import render_page
from kedro_hone.report.throughputs import list_throughputs

SHAPES = {"one": {"batch": 1}, "bulk": {"batch": 8}}
CLIENTS = {"one": 1, "bulk": 4}


def make_timings(walls_ms, *, rounds, name="source"):
    """Return raw timings whose blocks of ten calls took these milliseconds."""
    walls, key = np.asarray(walls_ms) * 1e6, f"confirm/{name}/bulk"
    count = len(walls)
    return {
        key: np.full(10 * count, 1_000_000),
        f"{key}/calls": np.full(count, 10),
        f"{key}/walls": walls.astype(np.int64),
        f"confirm/{name}/one": np.full(count, 1_000_000),
        f"confirm/{name}/one/calls": np.full(count, 1),
    }


def read(timings, *, rounds, names=("source",)):
    found = {"timings": timings, "names": names, "rounds": rounds, "confidence": 0.95}
    return list_throughputs(shapes=SHAPES, clients=CLIENTS, **found)


def test_each_launch_is_the_median_of_its_rounds():
    timings = make_timings([10, 20, 90, 16, 8, 99, 40, 40, 40], rounds=3)
    (one,) = read(timings, rounds=3)

    wanted = interval_of_ratios([8 * 10 / 0.020, 8 * 10 / 0.016, 8 * 10 / 0.040], confidence=0.95)
    assert (one.id, one.shape, one.clients, one.launches) == ("source", "bulk", 4, 3)
    assert one.rows_per_second.estimate == pytest.approx(wanted.estimate)
    assert (one.rows_per_second.low, one.rows_per_second.high) == pytest.approx((wanted.low, wanted.high))


def test_two_launches_and_rounds_that_make_no_whole_launches_have_none():
    assert read(make_timings([10] * 4, rounds=2), rounds=2) == ()
    assert read(make_timings([10] * 7, rounds=2), rounds=2) == ()


def test_who_was_not_confirmed_has_none():
    assert [one.id for one in read(make_timings([10] * 6, rounds=2), rounds=2, names=("source", "gone"))] == ["source"]


def test_the_page_shows_them_where_there_are_some():
    rate = interval_of_ratios([4000.0, 5000.0, 4500.0], confidence=0.95)
    record = ThroughputRecord(id="source", shape="bulk", clients=4, launches=3, rows_per_second=rate)
    page = render_page(make_evidence(throughputs=(record,)))

    assert "Throughput, several clients at once" not in render_page(make_evidence())
    section = page.partition('id="throughputs"')[2].partition("</section>")[0]
    assert f"<b>{rate.estimate:,.0f}</b>" in section
    assert f"{rate.low:,.0f}" in section
    assert "with its own number of threads" in section


def test_evidence_without_several_clients_is_written_as_before():
    evidence = make_evidence()

    assert "throughputs" not in json.loads(dump_evidence(evidence))
    assert parse_evidence(dump_evidence(evidence)) == evidence
