"""A comparison through the wire as lines for a terminal, and as a Markdown table."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from hone_runtime.text import clean_line
from hone_runtime.values.measurement import BUSY, Interval
from hone_runtime.values.wire import WireComparison, WireSide

IDLE: Final = 0.01
"""Cores of the waiting server from which they are worth a line."""
_HEAD = ("clients", "", "per second", "median ms", "p90 ms", "p99 ms", "CPU ms")


def format_comparison(found: WireComparison) -> Iterator[str]:
    """Yield the lines of a comparison."""
    sizes = ", ".join(f"{name} {size}" for name, size in found.sizes.items()) or "no dynamic dimension"
    yield clean_line(
        f"{found.winner}, in {found.winner_runs_in}, against {found.baseline}, in {found.baseline_runs_in}"
    )
    yield clean_line(
        f"REST with binary tensors, {sizes}, {found.request_bytes:,} bytes; {found.threads} "
        f"thread{'s' if found.threads > 1 else ''} each; {found.cpu}, {found.cores} cores for servers and clients"
    )
    yield f"{found.launches} launches of both servers, turns of {found.seconds:g} s; intervals of 95 % over launches"
    if (found.other_load or 0.0) > BUSY:
        yield f"other processes used {100 * (found.other_load or 0.0):.0f} % of the cores meanwhile"
    if found.idle_cpu >= IDLE:
        yield f"the server that waited used {found.idle_cpu:.2g} cores"
    yield clean_line(f"{found.rows} golden rows through the wire: {found.checked}")
    yield ""
    rows = [_HEAD, *_list_rows(found)]
    widths = [max(len(row[place]) for row in rows) for place in range(len(_HEAD))]
    for row in rows:
        yield "  ".join(text.ljust(width) for text, width in zip(row, widths, strict=True)).rstrip()
    yield ""
    yield (
        f"without a server: source {found.direct_baseline_ms:.3g} ms, winner {found.direct_winner_ms:.3g} ms: "
        f"{format_ratio(found.direct_speedup)} as fast"
    )
    for cell in found.cells:
        yield (
            f"{cell.clients} client{'s' if cell.clients > 1 else ''}: {format_ratio(cell.speedup)} as fast by the "
            f"median, {format_ratio(cell.throughput)} the throughput"
        )
    if found.wire_ms is not None:
        source, winner = found.wire_ms
        yield f"what the wire costs one client: {source:.3g} ms a call of the source, {winner:.3g} ms of the winner"


def _list_rows(found: WireComparison) -> Iterator[tuple[str, ...]]:
    for cell in found.cells:
        yield (str(cell.clients), "source", *_format_side(cell.baseline))
        yield ("", "winner", *_format_side(cell.winner))


def _format_side(side: WireSide) -> tuple[str, ...]:
    return (
        format_interval(side.throughput),
        format_interval(side.median_ms),
        _format_tail(side.p90_ms, side.latency.p90_ms),
        _format_tail(side.p99_ms, side.latency.p99_ms),
        f"{side.cpu_ms:.3g}",
    )


def _format_tail(interval: Interval | None, together: float | None) -> str:
    """Return a percentile with its interval; alone if only all launches together have enough samples."""
    if interval is not None:
        return format_interval(interval)
    return "" if together is None else f"{together:.3g}"


def format_interval(value: Interval) -> str:
    """Return an estimate with the ends of its interval."""
    return f"{_round(value.estimate)} ({_round(value.low)} to {_round(value.high)})"


def format_ratio(value: Interval) -> str:
    """Return a ratio with the ends of its interval, such as ``2.4 times (2.3 to 2.5)``."""
    return f"{value.estimate:.2f} times ({value.low:.2f} to {value.high:.2f})"


def _round(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"
