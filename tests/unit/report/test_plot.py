"""The chart: its SVG as it is in the page, and where its marks are."""

import itertools
import re
import sys
from xml.etree import ElementTree as ET

import pytest
from sample import SOURCE_MS, WINNER, make_evidence

from hone_runtime.values.decision import Verdict
from hone_runtime.values.measurement import Interval
from kedro_hone.report.plot import Point, choose_steps, choose_ticks, draw_chart, draw_charts, label_points
from kedro_hone.report.rendering import render_page

SVG = "{http://www.w3.org/2000/svg}"


def read_drawing(evidence):
    """Return the drawing of the page, parsed as XML: what is not well-formed raises."""
    text = re.findall(r"<svg.*?</svg>", render_page(evidence), re.DOTALL)[0]
    return ET.fromstring(text)  # noqa: S314 - our own page


def find(root, kind):
    return [element for element in root.iter() if kind in (element.get("class") or "").split()]


@pytest.fixture(scope="module")
def drawing():
    return read_drawing(make_evidence())


@pytest.mark.parametrize("verdict", Verdict)
def test_every_candidate_that_was_timed_has_a_point_and_its_intervals(verdict):
    evidence = make_evidence(verdict)
    timed = {" → ".join(one.route) or "source model" for one in evidence.candidates if one.latency}
    drawing = read_drawing(evidence)
    for kind in ("mark", "interval"):
        titles = [element.find(f"{SVG}title").text for element in find(drawing, kind)]
        assert len(titles) == len(timed) == 16
        assert {title.partition(" (")[0] for title in titles} == timed
        assert all(re.search(r"\d (ms|µs), accuracy \d+\.\d+ %$", title) for title in titles)


def test_a_drawing_has_a_title_and_a_description_and_takes_its_colours_from_the_page(drawing):
    named = {element.get("id"): element.text for element in drawing if element.get("id")}
    assert drawing.get("role") == "img"
    assert set(drawing.get("aria-labelledby").split()) == set(named)
    assert all(named.values())
    text = ET.tostring(drawing, encoding="unicode")
    assert re.findall(r"#[0-9a-fA-F]{3,8}\b", text) == []
    assert "style=" not in text


@pytest.mark.attack(
    what="a script in a name, for the drawing", who="registry", stopped_by="the drawing is written by an XML library"
)
def test_names_and_metrics_cannot_become_markup():
    evil = "<script>&\"'</svg>"
    evidence = make_evidence()
    changed = [
        one.model_copy(
            update={
                "route": (*one.route[:-1], evil) if one.route else (),
                "quality": one.quality and one.quality.model_copy(update={"metric": evil}),
            }
        )
        for one in evidence.candidates
    ]
    root = read_drawing(evidence.model_copy(update={"candidates": tuple(changed)}))
    assert {element.tag.removeprefix(SVG) for element in root.iter()} == {
        "svg", "title", "desc", "g", "line", "rect", "text", "tspan", "circle",
    }  # fmt: skip
    winner = next(element for element in find(root, "mark") if "winner" in element.get("class"))
    assert evil in winner.find(f"{SVG}title").text
    assert (
        evil in root.find(f"{SVG}title").text.replace("Script", "script")
        or evil.capitalize() in root.find(f"{SVG}title").text
    )


def test_a_faster_candidate_is_on_the_left_and_a_better_one_above():
    points = draw_chart(make_evidence()).points
    for one in points:
        assert 0 <= one.x.low <= one.x.estimate <= one.x.high <= 100
        assert 0 < one.y.high <= one.y.estimate <= one.y.low <= 100
    marks = {point.text.partition(" (")[0]: point for point in points}
    evidence = make_evidence()
    rows = [
        (one.latency[0].p50_ms, one.quality.candidate, marks[" → ".join(one.route) or "source model"])
        for one in evidence.candidates
        if one.latency and one.quality
    ]
    for (fast, good, one), (slow, bad, other) in itertools.pairwise(rows):
        assert (fast < slow) == (one.x.estimate < other.x.estimate)
        assert (good > bad) == (one.y.estimate < other.y.estimate)


def test_the_winner_is_drawn_last_and_named():
    chart = draw_chart(make_evidence())
    route = make_evidence().find_candidate(WINNER).route
    assert chart.points[-1].role == "winner"
    source, winner = find(read_drawing(make_evidence()), "label")
    assert "".join(source.itertext()) == "source"
    assert {one.get("class"): one.text for one in winner} == {
        "narrow": "winner", "wide": f"winner: … → {route[-2]} → {route[-1]}",
    }  # fmt: skip
    assert chart.roles == ("winner", "finalist", "source", "measured", "dropped")


def test_a_long_name_is_cut_and_turned_towards_the_middle():
    evidence = make_evidence()
    winner = evidence.find_candidate(WINNER)
    slow = [one.model_copy(update={"p50_ms": 40 * SOURCE_MS["batch1"]}) for one in winner.latency]
    winner = winner.model_copy(update={"route": ("x" * 400,), "latency": tuple(slow)})
    source = evidence.find_candidate("source")
    label = find(read_drawing(evidence.model_copy(update={"candidates": (source, winner)})), "label")[-1]
    (text,) = (one.text for one in find(label, "wide"))
    assert len(text) == 60
    assert text.endswith("…")
    assert label.get("text-anchor") == "end"


def change(quality, **fields):
    return quality.model_copy(update=fields)


def test_the_limit_of_the_candidates_is_drawn():
    """The source's own record has none: it is compared with itself."""
    evidence = make_evidence()
    assert evidence.candidates[0].quality.limit is None
    chart = draw_chart(evidence)
    assert 0 < chart.limit < 100
    assert find(read_drawing(evidence), "limit")
    free = [
        one.model_copy(update={"quality": one.quality and change(one.quality, limit=None)})
        for one in evidence.candidates
    ]
    assert draw_chart(evidence.model_copy(update={"candidates": tuple(free)})).limit is None


def test_no_share_is_drawn_above_one():
    evidence = make_evidence()
    below = Interval(estimate=0.0, low=-0.05, high=0.01)
    sure = [
        one.model_copy(update={"quality": change(one.quality, source=1.0, candidate=1.0, drop=below)})
        for one in evidence.candidates
        if one.quality
    ]
    evidence = evidence.model_copy(update={"candidates": tuple(sure)})
    chart = draw_chart(evidence)
    assert chart.lines[-1][1] == "100.0%"
    assert {point.y.high for point in chart.points} == {chart.lines[-1][0]}


def test_ticks_that_are_close_get_the_decimals_that_tell_them_apart():
    evidence = make_evidence()
    drop = Interval(estimate=0.0, low=-0.0001, high=0.0001)
    close = [
        one.model_copy(update={"quality": change(one.quality, source=0.9778, candidate=0.9778, drop=drop, limit=None)})
        for one in evidence.candidates
        if one.quality
    ]
    lines = draw_chart(evidence.model_copy(update={"candidates": tuple(close)})).lines
    assert len({label for _, label in lines}) == len(lines) > 2


def test_nothing_is_drawn_where_nothing_can_be_compared():
    evidence = make_evidence()
    assert draw_chart(evidence.model_copy(update={"latency": None})) is None
    assert draw_chart(evidence.model_copy(update={"candidates": evidence.candidates[:1]})) is None


def test_an_interval_without_an_end_reaches_the_edge_of_the_chart():
    """Too few rows for a bootstrap of a metric such as R² have an interval that ends at the largest number."""
    evidence = make_evidence()
    endless = Interval(estimate=0.0, low=-sys.float_info.max, high=sys.float_info.max)
    open_ended = [
        one.model_copy(update={"quality": change(one.quality, metric="r2", **({"drop": endless} if one.route else {}))})
        for one in evidence.candidates
        if one.quality
    ]
    evidence = evidence.model_copy(update={"candidates": tuple(open_ended)})
    points = draw_chart(evidence).points
    assert {point.y.low for point in points if point.role != "source"} == {100}
    assert all(0 <= point.y.high <= point.y.estimate < 100 for point in points)
    assert find(read_drawing(evidence), "mark")


def test_a_ratio_of_two_rounds_leaves_room_for_the_others():
    evidence = make_evidence()
    wild = Interval(estimate=4.6, low=6.0e-59, high=3.1e62)
    spoiled = tuple(change(one, speedup=wild) if one.route and one.latency else one for one in evidence.candidates)
    known, drawn = draw_chart(evidence).points, draw_chart(evidence.model_copy(update={"candidates": spoiled})).points
    assert len({point.x.estimate for point in drawn}) == len({point.x.estimate for point in known}) > 2
    assert all(point.x.low == point.x.high for point in drawn)


@pytest.mark.parametrize(("low", "high"), [(0.1, 0.7), (1.1, 1.5), (0.1, 400), (2.0, 2.1), (1, 1e6), (1e-4, 1e6)])
def test_ticks_are_inside_and_few(low, high):
    ticks = choose_ticks(low, high)
    assert len(ticks) <= 7
    assert all(low <= tick <= high for tick in ticks)
    assert len(ticks) >= 2 or high / low < 1.2


@pytest.mark.parametrize(("low", "high"), [(0.9617, 0.982), (0.9, 1.0), (-3.0, 12.5), (1000.0, 1001.0), (0.0, 1e-6)])
def test_steps_are_inside_and_round(low, high):
    steps = choose_steps(low, high)
    assert 3 <= len(steps) <= 8
    assert low - 1e-9 <= steps[0] < steps[-1] <= high + 1e-9


def test_each_shape_has_a_chart_and_the_deciding_one_is_first():
    evidence = make_evidence()
    shapes = {both.source.shape for both in evidence.latencies}

    charts = draw_charts(evidence)

    assert charts[0] == draw_chart(evidence)
    assert len(charts) == len({chart.shape for chart in charts}) == len(shapes) == 2
    assert len(re.findall("<svg.*?</svg>", render_page(evidence), re.DOTALL)) == 2


def test_the_races_interval_is_that_of_the_deciding_shape_only():
    """The objective's ratio says nothing of another shape's times."""
    deciding, other = draw_charts(make_evidence())

    assert any(point.x.low < point.x.high for point in deciding.points)
    assert all(point.x.low == pytest.approx(point.x.high) for point in other.points)
    titles = {title.partition(":")[2] for chart in (deciding, other) for title in [chart.points[0].text]}
    assert len(titles) == 2


def make_point(role, name, x, y):
    places = (Interval(estimate=at, low=at, high=at) for at in (x, y))
    return Point(role, name, name, *places)


def test_names_stand_where_they_cover_nothing():
    points = (
        make_point("measured", "far", 30, 80),
        make_point("measured", "close", 31, 81),
        make_point("finalist", "first", 20, 50),
        make_point("measured", "edge", 99, 90),
        make_point("measured", "at the top", 40, 12),
        make_point("winner", "won", 50, 50),
        make_point("source", "source model", 90, 20),
    )

    labels = {point.name: (point.label, point.right) for point in label_points(points)}

    assert labels["first"] == ("first", True)
    assert labels["edge"] == ("edge", False)
    assert labels["far"] == ("far", False)  # to the right is the mark of the other
    assert labels["close"] == ("close", True)
    assert labels["at the top"] == labels["won"] == labels["source model"] == ("", True)


def test_finalists_are_named_first():
    points = (make_point("measured", "a" * 20, 14, 53), make_point("finalist", "b" * 20, 16, 50))

    measured, finalist = label_points(points)

    assert (finalist.label, finalist.right) == ("b" * 20, True)
    assert (measured.label, measured.right) == ("a" * 20, False)


def test_each_mark_without_a_label_of_its_own_has_a_number_by_speed():
    row = tuple(make_point("measured", "d" * 60, x, 50) for x in (36, 30, 33))
    others = make_point("winner", "won", 20, 50), make_point("source", "source model", 90, 50)

    found = label_points((*row, *others))

    assert [point.number for point in found] == [3, 1, 2, 0, 0]
    assert found[2].label == ""  # marks on both sides


def test_the_drawing_has_the_names(drawing):
    shown = find(drawing, "name")
    points = [point for point in draw_chart(make_evidence()).points if point.number]
    named = [point.label for point in points if point.label]

    assert len(points) == 14
    assert len(named) > 2
    assert sorted("".join(element.itertext()) for element in shown) == sorted(
        [*named, *(str(point.number) for point in points)]
    )
    (names, _) = re.findall('<ol class="names".*?</ol>', render_page(make_evidence()), re.DOTALL)
    listed = re.findall("<li>(.*?)</li>", names)
    assert listed == [point.name for point in sorted(points, key=lambda point: point.number)]
