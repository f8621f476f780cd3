"""Rows for which the source itself differs in other batches: a converted candidate may differ as much."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from hone_runtime.values.samples import Reference
from kedro_hone.search.comparison.agreement import Difference, Fault
from kedro_hone.search.comparison.answers import Answers
from kedro_hone.search.context import RunContext
from kedro_hone.search.stability.single_rows import find_unsteady
from kedro_hone.search.validation.probe_outputs import Found, Shares, find_share

Compare = Callable[[str, Mapping[str, Answers]], Sequence[Difference] | Fault]
"""Compares a candidate's outputs again with the source's other results (by output), by the comparison's name."""


def excuse_rows(
    found: Found,
    batches: Mapping[str, int],
    *,
    shares: Shares,
    compare: Compare,
    context: RunContext,
    reference: Reference,
) -> tuple[Found, tuple[str, ...]]:
    """Return the differences beyond those of the source's own results, and remarks on the latter.

    Args:
        found: The differences of a candidate that only converts.
        batches: The batch size of each comparison, by name, on the uncut rows of the search split.
        shares: The share of rows that may differ.
        compare: Compares again with the source's other results, by the name of the comparison.
        context: The run's.
        reference: The source's outputs.

    Raises:
        HoneError: ``source-mixes-rows``.
    """
    excused, limits = dict(found), list[str]()
    for where, batch in batches.items():
        wrong = [one for one in found[where] if one.rows > find_share(one, shares) * one.of]
        places = sorted({place for one in wrong for place in one.places})
        if not places:
            continue
        unsteady = find_unsteady(places, batch=batch, context=context, reference=reference)
        if unsteady.answers:
            again = compare(where, unsteady.answers)
            excused[where] = found[where] if isinstance(again, Fault) else again
        for how, rows in ((f"in calls of {batch}", unsteady.in_calls), ("among copies", unsteady.among_copies)):
            if rows:
                named = ", ".join(map(str, rows))
                limits.append(f"the source itself returns something else {how} for these rows: {named}")
    return excused, tuple(dict.fromkeys(limits))
