"""Rows in which a candidate that only converts is not judged: the source itself differs there in other batches."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from kedro_hone.building.probing import Found, Shares, find_share
from kedro_hone.comparing.agreement import Difference, Fault
from kedro_hone.comparing.setting import Setting
from kedro_hone.comparing.source_rows import find_unsteady
from kedro_hone.core.values.samples import Reference

Compare = Callable[[str, Sequence[int]], Sequence[Difference] | Fault]
"""Compares a candidate's outputs again, by the name of a comparison, without some rows."""


def excuse_rows(
    found: Found,
    batches: Mapping[str, int],
    *,
    shares: Shares,
    compare: Compare,
    setting: Setting,
    reference: Reference,
) -> tuple[Found, tuple[str, ...]]:
    """Return the differences without the rows for which the source is unsteady, and what is known of these.

    Args:
        found: The differences of a candidate that only converts.
        batches: The batch size by the name of each comparison on the whole rows of the search split.
        shares: The share of rows that may differ.
        compare: Compares again without some rows, by the name of the comparison.
        setting: The run's.
        reference: The source's outputs.

    Raises:
        HoneError: ``source-mixes-rows``.
    """
    excused, limits = dict(found), list[str]()
    for where, batch in batches.items():
        wrong = [one for one in found[where] if one.rows > find_share(one, shares) * one.of]
        places = sorted({place for one in wrong for place in one.places})
        unsteady = find_unsteady(places, batch=batch, setting=setting, reference=reference) if places else ()
        if unsteady:
            named = ", ".join(map(str, unsteady))
            limits.append(f"the source itself returns something else in calls of {batch} for these rows: {named}")
            again = compare(where, unsteady)
            excused[where] = found[where] if isinstance(again, Fault) else again
    return excused, tuple(limits)
