"""Find differences of a candidate's outputs from the source's that are too large."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Final

from kedro_hone.search.comparison.agreement import Difference, explain_rows

LOST: Final = 0.35
"""The share of its spread over the rows by which an output without labels may differ: an R² of 0.88."""


def find_disagreement(
    differences: Sequence[Difference],
    *,
    scored: Collection[str],
    labelled: bool = True,
    exact: float | None,
    discrete: float,
    unscored: float,
) -> str:
    """Return the first output that does not agree as required, as a clause; empty if all do.

    Args:
        differences: The differences of one batch size or shape.
        scored: The outputs that the program's metrics are computed from.
        labelled: Whether these are compared with labels instead of the source's outputs.
        exact: If a route only converts: the share of rows that may differ by more than rounding; None for others.
        discrete: The same for outputs of integers or text, if a route only converts.
        unscored: The largest ``distance`` of all other outputs from the source's.
    """
    for one in differences:
        share = discrete if one.discrete else exact
        if exact is not None and share is not None and one.rows > share * one.of:
            most = f"{share:.2%} of the rows" if share else "no row"
            return f"{explain_rows(one)}. The route only converts, and {most} may differ (gates.conversion)"
        if one.constant:
            return f"{one.constant} in the candidate"
        if one.rows and one.output not in scored and one.distance > unscored:
            loss = f"they are as far as {one.distance:.3g}, and {unscored:g} is allowed"
            return f"{explain_rows(one)}. No metric reads them; {loss} (gates.unscored)"
        if one.rows and one.lost > LOST and not (labelled and one.output in scored):
            return (
                f"{explain_rows(one)}. They differ by {one.lost:.3g} of their spread over the rows; {LOST:g} is allowed"
            )
    return ""
