from __future__ import annotations

import pytest

from kedro_hone.serving.wire.figures import Turn, sort_turns, summarize_cell, summarize_direct


def make_turn(milliseconds: float, *, number: int = 700) -> Turn:
    times = tuple(round(milliseconds * 1e6) for _ in range(number))
    return Turn(seconds=number * milliseconds / 1e3, latencies=times, answered=number, cpu_seconds=number * 1e-3)


def test_a_winner_that_takes_half_the_time_is_twice_as_fast() -> None:
    launches = [
        ((make_turn(4 * slow), make_turn(4 * slow)), (make_turn(2 * slow), make_turn(2 * slow))) for slow in (1, 2)
    ]
    cell = summarize_cell(4, launches)
    assert cell.speedup.estimate == pytest.approx(2)
    assert cell.throughput.estimate == pytest.approx(2)
    assert (cell.speedup.low, cell.speedup.high) == pytest.approx((2, 2))  # a slow launch slows down both
    assert cell.winner.throughput.estimate == pytest.approx((500 * 250) ** 0.5)
    assert cell.baseline.cpu_ms == pytest.approx(1, rel=0.01)
    assert cell.winner.p99_ms is not None


def test_a_drift_within_a_launch_affects_both_alike() -> None:
    drift = [((make_turn(4), make_turn(8)), (make_turn(2), make_turn(4)))] * 2
    assert summarize_cell(1, drift).speedup.estimate == pytest.approx(2)


def test_turns_are_sorted_whoever_was_first() -> None:
    assert sort_turns(["s1", "w1", "w2", "s2"], winner_first=False) == ["s1", "w1", "w2", "s2"]
    assert sort_turns(["w1", "s1", "s2", "w2"], winner_first=True) == ["s1", "w1", "w2", "s2"]


@pytest.mark.parametrize(("number", "p90", "p99"), [(31, False, False), (32, True, False), (331, True, True)])
def test_percentiles_need_enough_answers_in_each_launch(number: int, p90: bool, p99: bool) -> None:
    turns = (make_turn(1, number=number), make_turn(1, number=number))
    side = summarize_cell(1, [(turns, turns)] * 3).winner
    assert (side.p90_ms is not None, side.p99_ms is not None) == (p90, p99)
    assert side.latency.n == 6 * number


def test_the_throughput_is_of_the_answers_within_the_turn_and_the_tail_of_all() -> None:
    turn = Turn(seconds=1.0, latencies=(*[10_000_000] * 90, *[900_000_000] * 10), answered=90, cpu_seconds=1.0)
    side = summarize_cell(10, [((turn, turn), (turn, turn))] * 2).winner
    assert side.throughput.estimate == pytest.approx(90)
    assert side.latency.p90_ms is not None
    assert side.latency.p90_ms > 10
    assert side.cpu_ms == pytest.approx(10)


def test_one_launch_has_no_interval() -> None:
    turns = (make_turn(1), make_turn(1))
    with pytest.raises(ValueError, match="two"):
        summarize_cell(1, [(turns, turns)])


def test_calls_without_a_server_are_compared_in_neighbouring_turns() -> None:
    launch = [[4_000_000] * 5, [2_000_000] * 5, [4_000_000] * 5, [8_000_000] * 5]
    baseline, winner, ratio = summarize_direct([launch, launch])
    assert ratio.estimate == pytest.approx(2)
    assert (baseline.p50_ms, winner.p50_ms) == (6, 3)
