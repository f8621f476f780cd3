"""The assignment of units to splits: whole units, in the order of their digests, with each class on all sides."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from hone_runtime.values.samples import CALIBRATION, GATE, SEARCH
from kedro_hone.derivation.kinds import format_value
from kedro_hone.derivation.units import Unit

SPARE: Final = "spare"
"""The name of the rows that no split needs."""

_ORDER: Final = (GATE, SEARCH, CALIBRATION, SPARE)
_NEEDED: Final = (GATE, SEARCH, CALIBRATION)
_LARGE: Final = 0.05
"""Units with more than this share of the rows are assigned first, while there is room for them."""
_LEAST: Final = 0.5
"""The share of its wanted rows that a split has at least."""

Deficits = dict[str, dict[Any, int]]


class IndivisibleError(Exception):
    """Units cannot be divided as wanted: why."""


def assign(
    units: Sequence[Unit], labels: Sequence[Any] | None, wanted: Mapping[str, int]
) -> dict[str, tuple[int, ...]]:
    """Assign each unit to the split that lacks most rows of its classes.

    Args:
        units: Rows that stay together, in the order in which they are assigned.
        labels: The class of each row; None if they are not stratified.
        wanted: The number of rows of each split, and of ``SPARE``; their sum is the number of rows.

    Returns:
        The numbers of the rows of each split and of ``SPARE``, ascending.

    Raises:
        IndivisibleError: A class has too few units to be in all splits, or a split would be far too small.
    """
    counted = [_count(unit, labels) for unit in units]
    totals = Counter[Any]()
    remaining = Counter[Any]()
    for counts in counted:
        totals += counts
        remaining.update(counts.keys())
    for label, count in remaining.items():
        if count < len(_NEEDED):
            raise IndivisibleError(_explain_rare(label, totals[label], count))
    deficits = _share(totals, wanted)
    lacking = {label: dict.fromkeys(_NEEDED) for label in totals}
    made: dict[str, list[int]] = {split: [] for split in _ORDER}
    for at in _order(units, counted, remaining, sum(wanted.values())):
        counts = counted[at]
        split = _choose(counts, deficits, totals, _force(counts, remaining, lacking))
        made[split].extend(units[at].rows)
        for label, count in counts.items():
            deficits[split][label] -= count
            remaining[label] -= 1
            lacking[label].pop(split, None)
    _check_sizes(made, wanted, lacking)
    return {split: tuple(sorted(rows)) for split, rows in made.items()}


def _count(unit: Unit, labels: Sequence[Any] | None) -> Counter[Any]:
    """Return the rows of each class, in an order that does not depend on that of the rows."""
    if labels is None:
        return Counter({None: len(unit.rows)})
    return Counter(dict(sorted(Counter(labels[row] for row in unit.rows).items(), key=_rank)))


def _rank(item: tuple[Any, int]) -> tuple[str, Any]:
    return type(item[0]).__name__, item[0]


def _share(totals: Mapping[Any, int], wanted: Mapping[str, int]) -> Deficits:
    """Return the rows of each class that each split shall have: in proportion, and at least one."""
    rows, before = sum(wanted.values()), 0
    made: Deficits = {split: {} for split in _ORDER}
    for label, count in totals.items() if len(totals) == 1 else sorted(totals.items(), key=_rank):
        after = before + count
        for split in _ORDER[1:]:  # rounded sums, so that each split has its number of rows over all classes
            made[split][label] = _round(after * wanted[split], rows) - _round(before * wanted[split], rows)
        made[GATE][label] = count - sum(made[split][label] for split in _ORDER[1:])
        before = after
        for split in _NEEDED:
            if made[split][label] < 1:
                most = max(_ORDER, key=lambda other: made[other][label])
                made[most][label] -= 1 - made[split][label]
                made[split][label] = 1
    return made


def _round(number: int, divisor: int) -> int:
    return (2 * number + divisor) // (2 * divisor)


def _order(
    units: Sequence[Unit], counted: Sequence[Mapping[Any, int]], frequent: Mapping[Any, int], rows: int
) -> Iterator[int]:
    """Yield the numbers of the units: large ones and those of rare classes first, others by their digests."""
    rarity = [min(frequent[label] for label in counts) for counts in counted]
    yield from sorted(range(len(units)), key=lambda at: (len(units[at].rows) <= _LARGE * rows, rarity[at]))


def _force(
    counts: Mapping[Any, int], remaining: Mapping[Any, int], lacking: Mapping[Any, Mapping[str, None]]
) -> tuple[str, ...]:
    """Return the splits in which a unit may be: those without one of its classes, if no more units can be spared."""
    urgent = [label for label in counts if lacking[label] and remaining[label] <= len(lacking[label])]
    if not urgent:
        return _ORDER
    rarest = min(urgent, key=lambda label: (remaining[label] - len(lacking[label]), remaining[label]))
    return tuple(split for split in _NEEDED if split in lacking[rarest])


def _choose(counts: Mapping[Any, int], deficits: Deficits, totals: Mapping[Any, int], among: tuple[str, ...]) -> str:
    """Return the split with the largest deficit of a unit's classes, relative to the size of each class."""
    if len(counts) == 1:
        label = next(iter(counts))
        return max(among, key=lambda split: deficits[split][label])
    return max(
        among, key=lambda split: sum(count * deficits[split][label] / totals[label] for label, count in counts.items())
    )


def _check_sizes(made: Mapping[str, list[int]], wanted: Mapping[str, int], lacking: Mapping[Any, Any]) -> None:
    for label, splits in lacking.items():
        if splits:
            raise IndivisibleError(f"No group with the class `{format_value(label)}` can be in {next(iter(splits))}.")
    for split in _NEEDED:
        if len(made[split]) < _LEAST * wanted[split]:
            why = f"Too many rows belong together: {split} would have {len(made[split])} rows, not {wanted[split]}."
            raise IndivisibleError(why)


def _explain_rare(label: Any, rows: int, units: int) -> str:
    if label is None:
        return f"Its rows are only {units} different ones, or so many groups, and three splits are needed."
    counted = "1 row" if rows == 1 else f"{rows} rows"
    apart = "" if rows == units else f", of which {units} can be apart from the others (the rest are copies or a group)"
    return (
        f"The class `{format_value(label)}` has {counted}{apart}. It must be in each of three splits, so it needs "
        f"{len(_NEEDED)} different rows in different groups."
    )
