"""Round numbers for the axes of the chart."""

from __future__ import annotations

import math
from typing import Final

_DIGITS: Final = (
    (1.0,),
    (1.0, 3.0),
    (1.0, 2.0, 5.0),
    (1.0, 1.5, 2.0, 3.0, 4.0, 6.0, 8.0),
    tuple(tenth / 10 for tenth in range(10, 100)),
)
"""Leading digits of the ticks within one decade, sparse to dense."""


def choose_steps(low: float, high: float) -> list[float]:
    """Return round numbers between two ends of a linear axis, about six."""
    wanted = (high - low) / 6
    power = 10.0 ** math.floor(math.log10(wanted))
    step = next(power * digit for digit in (1, 2, 5, 10) if power * digit >= wanted * 0.999)
    first, last = math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9)
    return [round(number * step, 12) for number in range(first, last + 1)]


def choose_ticks(low: float, high: float, *, most: int) -> list[float]:
    """Return round numbers between two ends of a logarithmic axis: as many as fit, or every so many decades."""
    chosen: list[float] = []
    for digits in _DIGITS:
        ticks = [float(f"{digit}e{power}") for power in range(-9, 13) for digit in digits]
        ticks = [tick for tick in ticks if low <= tick <= high]
        if len(ticks) > most:
            return chosen or ticks[:: -(-len(ticks) // most)]
        chosen = ticks
    return chosen
