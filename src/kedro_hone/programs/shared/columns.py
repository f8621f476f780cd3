"""The columns of the data that a model takes, found by the names in its training data."""

from __future__ import annotations

import re
import warnings
from collections.abc import Sequence
from typing import Any

from .errors import UnreadableError

_GENERATED = re.compile(r"(?:Column_|f|x)?(\d+)")
"""Names that libraries generate for unnamed columns, by their number."""
_SHOWN = 8
_IN_ORDER = "name them in the order of the model's input: hone.program.options.features"


def list_names(job: dict[str, Any]) -> list[str]:
    """Return the names of the columns that an estimator was fitted on, in their order; empty if it has none."""
    said = job["input"].get("metadata", {}).get("sklearn") or {}
    return [str(name) for name in said.get("feature_names_in") or said.get("columns") or ()]


def choose_columns(found: Sequence[str], names: Sequence[str]) -> list[str]:
    """Return the columns for a model's table, in its order, with a warning that lists those left out.

    Args:
        found: The columns of the data but the target.
        names: Those that the model was fitted on; if it has none, all columns are taken in their order.

    Raises:
        UnreadableError: One is missing.
    """
    # LightGBM replaces spaces in the names that it stores.
    known = {name.replace(" ", "_"): name for name in found} | {name: name for name in found}
    missing = [name for name in names if name not in known]
    if missing and len(missing) == len(names) and _are_generated(names):
        names = missing = []
    if missing:
        what = f"the column {missing[0]!r} is" if len(missing) == 1 else f"the columns {list_some(missing)} are"
        have = f"the model takes {list_some(names)}, and the data have {list_some(found)}"
        raise UnreadableError(f"{what} missing; {have}; if they have other names, {_IN_ORDER}")
    if names:
        chosen = [known[name] for name in names]
        warn_of_others([name for name in found if name not in chosen])
        return chosen
    return list(found)


def check_count(found: Sequence[str], count: int | str) -> None:
    """Refuse a number of columns other than the model takes; if ``count`` is a name, any number is accepted.

    Raises:
        UnreadableError: It differs.
    """
    if isinstance(count, int) and len(found) != count:
        raise UnreadableError(
            f"there are {len(found)} columns ({list_some(found)}), and the model takes {count}; {_IN_ORDER}"
        )


def warn_of_others(names: Sequence[str]) -> None:
    """Warn of columns that the model does not have."""
    if names:
        what = f"the column {names[0]!r} is" if len(names) == 1 else f"the columns {list_some(names)} are"
        warnings.warn(f"{what} none of the model's, and left out", stacklevel=2)


def _are_generated(names: Sequence[str]) -> bool:
    numbers = [found[1] if (found := _GENERATED.fullmatch(name)) else None for name in names]
    return numbers == [str(number) for number in range(len(names))]


def list_some(names: Sequence[Any]) -> str:
    """Return the first names for an error message, and the number of the others."""
    shown = ", ".join(repr(str(name)) for name in names[:_SHOWN])
    return shown if len(names) <= _SHOWN else f"{shown} and {len(names) - _SHOWN} more"
