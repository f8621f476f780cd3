"""How a difference in quality is spread over the rows."""

from __future__ import annotations

from pydantic import Field

from hone_runtime.values.base import Value


class Spread(Value):
    """How much worse a candidate is, row by row, in the metric's unit; positive is worse."""

    best: float = Field(description="The smallest difference of a row.")
    p5: float = Field(description="Five in a hundred rows have a smaller one.")
    median: float = Field(description="Half of the rows have a smaller one.")
    p95: float = Field(description="Ninety-five in a hundred rows have a smaller one.")
    p99: float = Field(description="Ninety-nine in a hundred rows have a smaller one.")
    worst: float = Field(description="The largest difference of a row.")
