"""A comparison through the wire, for the tests of what is written from it; a helper of tests, not a test."""

from __future__ import annotations

from hone_runtime.values.measurement import Interval, Latency
from hone_runtime.values.wire import WireCell, WireComparison, WireSide


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
