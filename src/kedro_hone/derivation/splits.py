"""Splits: the rows of one table, divided into calibration, search, gate and training by a hash of their content."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final

from hone_runtime.errors import HoneError
from hone_runtime.interfaces.texts import is_missing
from hone_runtime.values.samples import CALIBRATION, GATE, SEARCH, SPLITS, TRAINING
from kedro_hone.core.stats.intervals import UNITS
from kedro_hone.core.stats.levels import share_confidence
from kedro_hone.derivation.assignment import SPARE, IndivisibleError, assign
from kedro_hone.derivation.fingerprints import encode_value, hash_rows
from kedro_hone.derivation.metric import count_needed, find_provable, find_rare, is_balanced
from kedro_hone.derivation.rows import Table
from kedro_hone.derivation.targets import check_target, count_classes, find_column
from kedro_hone.derivation.units import unite
from kedro_hone.programs.shared.positive import BALANCED

LEAST_ROWS: Final = 4 * UNITS
"""The fewest rows that are divided: a quarter is the search split, and an interval needs 20 rows."""

_GATE, _SEARCH, _CALIBRATION = 0.6, 0.3, 0.1
"""The share of the rows of each split; the gate split never has more than its own."""
_TRAINING = 0.5
"""The share of the rows that train, if any do; the others are divided as if there were no more."""
_CALIBRATION_ROWS, _CALIBRATION_MOST, _MOST_SHARE = 256, 1_024, 0.15
"""Toolchains calibrate with some hundred rows: so many where 15 % of the rows are that many, and at most."""
_LEEWAY = 20
"""The gate split has at most this many times the rows that the limit needs if nothing is lost."""
_LEEWAY_RARE = 4
"""With a rare class: most of those rows are of common classes, which a run takes time to predict."""
_LIMIT = 0.002
"""The limit for which it is sized if none is known."""


_HINT: Final = (
    "Add rows, remove the rows of a class that is too rare, or name the splits yourself: --data calibration=FILE "
    "--data search=FILE --data gate=FILE."
)
_BY_GROUP: Final = "Name a column with more groups, of fewer rows each: --group NAME. "


@dataclass(frozen=True)
class Division:
    """The rows of one table, divided into three splits, or four with one to train.

    Attributes:
        table: The table.
        rows: The numbers of the rows of each split, in the order of the file, by the name of the split.
        spare: The number of rows that no split needs.
        target: The column of the target, if known.
        group: The column whose equal values are in one split, if any.
        classes: The number of rows of each class; None if the splits are not stratified.
        copies: How many rows are copies of another row.
        repeated: The number of rows that the gate split leaves out: each content and each group counts once there.
        limit: The largest drop that the gate shall allow; None if it is derived from the rows.
        confidence: Of each finalist's interval, after sharing it among the finalists.
        bounded: Whether a row can lose at most 1, as if it is right or wrong.
        in_gate: The number of rows of each class in the gate split; None if the splits are not stratified.
        metric: The metric that the gate split is sized for.
        options: The program's options.
    """

    table: Table
    rows: Mapping[str, tuple[int, ...]]
    spare: int
    target: str | None
    group: str | None
    classes: Mapping[str, int] | None
    copies: int
    repeated: int
    limit: float | None
    confidence: float
    bounded: bool
    in_gate: Mapping[str, int] | None = None
    metric: str = "accuracy"
    options: Mapping[str, Any] = field(default_factory=dict)

    @property
    def provable(self) -> float | None:
        """The smallest limit that the gate split can prove, rounded up to three digits; None for unbounded scores.

        It is proved only if no row is lost.
        """
        if not self.bounded:
            return None
        rows, options = len(self.rows[GATE]), self.options
        return round_up(find_provable(self.metric, self.in_gate, rows, options=options, confidence=self.confidence))

    @property
    def is_provable(self) -> bool:
        """Whether the limit can be proved; also true if there is none, or if scores are unbounded."""
        return self.limit is None or self.provable is None or self.provable <= self.limit

    @property
    def needed(self) -> int | None:
        """The number of rows that the table needs to prove the limit; None without a limit or for unbounded scores."""
        if self.limit is None or not self.bounded:
            return None
        options, level = self.options, self.confidence
        gate = count_needed(self.metric, self.classes, self.limit, options=options, confidence=level)
        return math.ceil(gate / _GATE / ((1 - _TRAINING) if TRAINING in self.rows else 1))


def divide(
    table: Table,
    *,
    target: str | None = None,
    group: str | None = None,
    content: Sequence[str] | None = None,
    classes: bool | None = None,
    limit: float | None = None,
    finalists: int = 3,
    confidence: float = 0.95,
    bounded: bool = True,
    metric: str | None = "accuracy",
    options: Mapping[str, Any] = MappingProxyType({}),
    trains: bool = False,
) -> Division:
    """Divide the rows of a table into calibration, search and gate, and into training if the recipe trains.

    Rows with equal content are in one split, and so are rows with an equal ``group``. The split of a row depends only
    on the content of the table, not on the order of its rows or its format.

    Args:
        table: The rows.
        target: The column of the target; each of its classes is in all three splits. None divides without classes.
        group: The column whose equal values stay together, such as a customer. Rows without a value are not grouped.
        content: The columns that the model gets. By default all but the target and the group. Rows that are equal in
            them are copies of each other, whatever their other columns.
        classes: Whether the target contains classes; by default this depends on its values (``check_target``).
        limit: The largest drop that the gate shall allow, by which the gate split is sized; None sizes it for 0.002.
        finalists: The number of finalists of the confirmation, which share the confidence.
        confidence: The confidence of all finalists together.
        bounded: Whether a row can lose at most 1.
        metric: The metric of the gate; None for the accuracy, or the balanced accuracy where a class is rare.
        options: The program's options, such as the positive class of the metric.
        trains: Whether there is a split ``training``: half of the rows, and those that no other split needs.

    Raises:
        HoneError: ``column-unknown``, ``target-unusable`` or ``data-indivisible``.
    """
    named = find_column(table, target, flag="--target") if target is not None else None
    grouped = find_column(table, group, flag="--group") if group is not None else None
    least = math.ceil(LEAST_ROWS / (1 - _TRAINING)) if trains else LEAST_ROWS
    if table.rows < least:
        splits = "splits with one to train" if trains else "three splits"
        raise _find_indivisible(
            table, f"It has {table.rows} rows, and {splits} need {least}.", "Use more rows: --data FILE."
        )
    labels = check_target(table, named, classes=classes) if named is not None else None
    names = [name for name in content or table.names if name not in {named, grouped}]
    if not names:
        raise _find_indivisible(table, "It has no column but the target.", "Add the columns that the model takes.")
    hashes = hash_rows({name: table.columns[name] for name in names}, table.rows)
    units = unite(hashes, None if grouped is None else table.columns[grouped])
    level = share_confidence(confidence, finalists=finalists)
    classes_of = None if labels is None else count_classes(labels)
    if metric is None:
        rare = bounded and classes_of is not None and find_rare(classes_of) is not None
        metric = BALANCED if rare else "accuracy"
    most = (limit if bounded else None) or _LIMIT
    needed = count_needed(metric, classes_of, most, options=options, confidence=level)
    training = math.floor(table.rows * _TRAINING) if trains else 0
    wanted = _size_splits(table.rows - training, most=needed * (_LEEWAY_RARE if is_balanced(metric) else _LEEWAY))
    wanted[SPARE] += training
    try:
        rows = assign(units, labels, wanted)
    except IndivisibleError as error:
        raise _find_indivisible(table, str(error), _BY_GROUP + _HINT if grouped else _HINT) from error
    if len(rows[SPARE]) < training / 2:
        why = f"Too many rows belong together: {len(rows[SPARE])} of {table.rows} could train."
        raise _find_indivisible(table, why, _BY_GROUP + _HINT if grouped else _HINT)
    gate = _pick_independent(rows[GATE], hashes, table, target=named, group=grouped)
    if labels is not None and {labels[row] for row in gate} != {labels[row] for row in rows[GATE]}:
        why = f"With one row of each {grouped!r}, a class is missing in the gate split."
        raise _find_indivisible(table, why, _BY_GROUP + _HINT)
    repeated = len(rows[GATE]) - len(gate)
    divided = {split: gate if split == GATE else rows[split] for split in SPLITS}
    return Division(
        table=table,
        rows=divided | ({TRAINING: rows[SPARE]} if trains else {}),
        spare=0 if trains else len(rows[SPARE]),
        repeated=repeated,
        target=named,
        group=grouped,
        classes=classes_of,
        copies=table.rows - len(set(hashes)),
        limit=limit,
        confidence=level,
        bounded=bounded,
        in_gate=None if labels is None else count_classes([labels[row] for row in gate]),
        metric=metric,
        options=options,
    )


def write_splits(division: Division, folder: Path) -> dict[str, Path]:
    """Write the splits in the format of the source, as the programs read it, and return their paths by name.

    Values are unchanged. A ``.csv`` file becomes one with commas, in UTF-8; ``.npy`` files become ``.npz`` files, which
    contain the names of the arrays.

    Args:
        division: The rows of each split.
        folder: The folder in which the files are made, named by split; it is made if it does not exist.
    """
    folder.mkdir(parents=True, exist_ok=True)
    return division.table.content.write(division.rows, folder)


def describe(division: Division) -> tuple[str, ...]:
    """Return what was derived, for the user: a line with the splits, and further lines of what is special."""
    table = division.table
    by = "row hash" if division.group is None else f"row hash and `{division.group}`"
    sides = ", ".join(f"{split} {len(rows):,}" for split, rows in division.rows.items())
    strata = f", stratified by `{division.target}`" if division.classes is not None else ""
    lines = [f"{len(division.rows)} splits of {table.rows:,} rows by {by}{strata}: {sides}"]
    if division.spare:
        lines.append(f"{division.spare:,} rows are in no split: a larger gate split would only take longer")
    if division.copies:
        lines.append(f"rows that are copies of others, each in the split of the first: {division.copies:,}")
    if division.repeated:
        once = "each content" if division.group is None else f"each content and each `{division.group}`"
        lines.append(f"{division.repeated:,} rows are not in the gate split, where {once} counts once")
    if not division.is_provable:
        lines.append(
            f"the gate split can prove a drop under {division.provable:g}, not under {division.limit:g}, which needs "
            f"{division.needed:,} rows in all"
        )
    return (*lines, *table.notes)


def _pick_independent(
    rows: Sequence[int], hashes: Sequence[bytes], table: Table, *, target: str | None, group: str | None
) -> tuple[int, ...]:
    """Return the rows of which no two have the same content or the same group, in the order of the file.

    The intervals of a gate count each row as independent evidence, and such rows are not. Which one is taken depends on
    a hash of the content, the target and the group, and not on the order of the file.
    """
    labels, groups = (None if name is None else table.columns[name] for name in (target, group))

    def rank(row: int) -> bytes:
        named = (b"" if column is None else encode_value(column[row]) for column in (labels, groups))
        return hashlib.sha256(hashes[row] + b"".join(hashlib.sha256(value).digest() for value in named)).digest()

    taken: dict[int, None] = {}
    seen: set[bytes] = set()
    for row in sorted(rows, key=lambda row: (rank(row), row)):
        value = None if groups is None else groups[row]
        keys = {b"row" + hashes[row], *(() if is_missing(value) else (b"group" + encode_value(value),))}
        if seen.isdisjoint(keys):
            taken[row] = None
            seen |= keys
    return tuple(sorted(taken))


def _size_splits(rows: int, *, most: int) -> dict[str, int]:
    """Return the number of rows of each split, and of those that none needs; the gate split has ``most`` at most."""
    gate = math.floor(rows * _GATE)
    calibration = max(math.ceil(rows * _CALIBRATION), min(_CALIBRATION_ROWS, math.floor(rows * _MOST_SHARE)))
    search = rows - gate - calibration
    if gate > most:
        gate, search = most, min(search, math.ceil(most * _SEARCH / _GATE))
        calibration = min(calibration, max(_CALIBRATION_MOST, math.ceil(most * _CALIBRATION / _GATE)))
    return {CALIBRATION: calibration, SEARCH: search, GATE: gate, SPARE: rows - gate - search - calibration}


def _find_indivisible(table: Table, why: str, hint: str) -> HoneError:
    return HoneError("data-indivisible", f"{table.path.name} cannot be divided into three splits.", why=why, hint=hint)


def round_up(value: float) -> float:
    """Return a number with three digits above a positive one, since a limit must be above the interval's end."""
    scale = 10.0 ** (2 - math.floor(math.log10(value)))
    rounded = math.ceil(value * scale) / scale
    return rounded if rounded > value else (math.ceil(value * scale) + 1) / scale
