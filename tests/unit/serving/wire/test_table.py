from __future__ import annotations

from hone_runtime.values.measurement import Interval, Latency
from hone_runtime.values.wire import WireCell, WireComparison, WireSide
from kedro_hone.serving.wire.table import format_comparison


def make_side(milliseconds: float, *, tail: bool) -> WireSide:
    interval = Interval(estimate=milliseconds, low=milliseconds * 0.9, high=milliseconds * 1.1)
    return WireSide(
        throughput=Interval(estimate=1000 / milliseconds, low=90, high=2000),
        median_ms=interval,
        p90_ms=interval if tail else None,
        latency=Latency(shape="1 client", p50_ms=milliseconds, n=100, p90_ms=7.5),
        cpu_ms=0.5,
    )


def make_comparison() -> WireComparison:
    ratio = Interval(estimate=2, low=1.9, high=2.1)
    cells = [
        WireCell(
            clients=n,
            baseline=make_side(5 * n, tail=n > 1),
            winner=make_side(3 * n, tail=True),
            throughput=ratio,
            speedup=ratio,
        )
        for n in (1, 4)
    ]
    return WireComparison(
        winner="models:/digits/4",
        baseline="models:/digits/1",
        baseline_runs_in="pytorch (pytorch)",
        winner_runs_in="onnxruntime (onnx)",
        protocol="http",
        sizes={"batch": 1},
        request_bytes=1234,
        threads=1,
        launches=5,
        seconds=2,
        cpu="A processor",
        cores=2,
        other_load=0.3,
        rows=3,
        direct_baseline_ms=4.2,
        direct_winner_ms=2.1,
        direct_speedup=ratio,
        cells=tuple(cells),
    )


def test_the_table_has_a_line_for_each_server_and_number_of_clients() -> None:
    lines = list(format_comparison(make_comparison()))
    assert lines[0] == "models:/digits/4, in onnxruntime (onnx), against models:/digits/1, in pytorch (pytorch)"
    assert "A processor, 2 cores" in lines[1]
    (source, winner) = (
        next(line for line in lines if name in line and "per second" not in line and "ms:" not in line)
        for name in ("  source", "  winner")
    )
    assert source.split()[:3] == ["1", "source", "200"]
    assert "7.5 " in source  # of all launches together, without an interval
    assert winner.split()[:2] == ["winner", "333"]


def test_what_the_wire_costs_is_the_difference_at_one_client() -> None:
    made = make_comparison()
    assert made.wire_ms == (5 - 4.2, 3 - 2.1)
    assert "0.8 ms a call of the source, 0.9 ms of the winner" in list(format_comparison(made))[-1]
    assert made.model_copy(update={"cells": made.cells[1:]}).wire_ms is None


def test_a_busy_machine_is_named() -> None:
    assert any("30 %" in line for line in format_comparison(make_comparison()))
