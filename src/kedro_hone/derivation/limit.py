"""The limit of the gate ``drop``: what was asked for, or what the rows can prove."""

from __future__ import annotations

from typing import Final

from hone_runtime.errors import HoneError
from kedro_hone.derivation.request import Request
from kedro_hone.programs.shared.positive import BALANCED

DEFAULT_DROP: Final = 0.01
"""The largest drop of the metric if the user names none, and the rows can prove it."""
_MOST_DROP: Final = 0.2
"""With rows that cannot prove less, a verdict would promise next to nothing."""


def choose_drop(request: Request, provable: float | None, *, metric: str = "metric") -> float:
    """Return the limit of the gate ``drop``: what was asked for, else 1 %, else the least that the rows can prove.

    Args:
        request: What the user named.
        provable: The least that the rows can prove; None if their number does not tell.
        metric: The metric, for the error.

    Raises:
        HoneError: ``gate-unprovable``: the limit that was asked for cannot be proved, or no sensible one can.
    """
    wanted = request.max_drop if request.max_drop is not None else DEFAULT_DROP
    if provable is None or provable <= wanted:
        return wanted
    if request.max_drop is None and provable <= _MOST_DROP:
        return provable
    more = f", or --max-drop {provable:.2%}" if provable < 1 else ""
    refused = max(wanted, _MOST_DROP if request.max_drop is None else 0)
    class_ = " of the rarest class" if metric == BALANCED else ""
    other = ", or gate the share of right rows: --set program.metric=accuracy" if metric == BALANCED else ""
    raise HoneError(
        "gate-unprovable",
        f"The rows cannot prove that the {metric} drops by at most {refused:.2%}.",
        why=f"Even if nothing is lost, the interval reaches {provable:.2%}.",
        hint=f"Use more rows{class_}{more}{other}.",
    )
