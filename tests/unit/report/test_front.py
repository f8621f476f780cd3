from __future__ import annotations

import pytest
from sample import make_evidence

from hone_runtime.values.measurement import Interval, Quality, Status
from kedro_hone.report.front import find_front
from kedro_hone.report.records import CandidateRecord
from kedro_hone.report.rendering import render_markdown, render_page


def make(name, speed, drop, size, **changes):
    interval = {"low": 0.0, "high": 9.0}
    fields = {
        "status": Status.MEASURED,
        "speedup": speed and Interval(estimate=speed, **interval),
        "quality": Quality(
            metric="accuracy",
            split="search",
            source=0.9,
            candidate=0.9 - drop,
            drop=Interval(estimate=drop, **interval),
            n=9,
        ),
        "size_bytes": size,
    }
    return CandidateRecord(id=name, route=("a",), **(fields | changes))


def test_the_front_has_whom_nobody_beats_in_all():
    rows = [
        make("fast", 5.0, 0.02, 10),
        make("right", 2.0, 0.0, 10),
        make("small", 1.0, 0.02, 5),
        make("beaten", 4.0, 0.02, 10),
        make("slow and large", 1.0, 0.0, 20),
    ]
    assert find_front(rows) == ("fast", "right", "small")


def test_equals_are_both_on_the_front():
    assert find_front([make("b", 2.0, 0.0, 5), make("a", 2.0, 0.0, 5)]) == ("a", "b")


@pytest.mark.parametrize(
    "changes",
    [{"publishable": False}, {"speedup": None}, {"quality": None}, {"size_bytes": None}, {"status": Status.FAILED}],
    ids=str,
)
def test_who_cannot_be_compared_or_published_is_not_on_it(changes):
    assert find_front([make("fast", 9.0, 0.0, 1, **changes), make("slow", 1.0, 0.0, 5)]) == ("slow",)


def test_the_reports_list_the_front_with_the_command():
    names = tuple(one.id for one in make_evidence().candidates if one.speedup and one.route)[:3]
    evidence = make_evidence(front=names)
    for text in (render_page(evidence).replace("<wbr>", ""), render_markdown(evidence)):
        assert "kedro hone choose CANDIDATE" in text
        assert all(name in text for name in names)
    alone = make_evidence(front=names[:1])
    assert "kedro hone choose" not in render_page(alone) + render_markdown(alone)
